package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
)

// bug returns an error for what waiting will not cure.
func bug(err error) error { return fmt.Errorf("%w: redis: %w", ratelimit.ErrBackendBug, err) }

// outage returns an error for what may be over soon.
func outage(err error) error { return fmt.Errorf("%w: redis: %w", ratelimit.ErrUnavailable, err) }

// errLate is the end of a decision's time budget.
var errLate = errors.New("no answer within the time budget")

// ErrQueueFull is wrapped, beside [ratelimit.ErrUnavailable], by the error of a
// call that found as many others waiting as [WithQueue] allows. It was not sent.
var ErrQueueFull = errors.New("too many calls are waiting")

// errClosed is a call after Close.
var errClosed = errors.New("backend is closed")

// outages are the beginnings of Redis's answers that say: not now, or not here.
// Each other answer is a bug of ours or of the set-up.
var outages = []string{
	"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "OOM", "BUSY ", "NOREPLICAS", "MISCONF",
	"MOVED", "ASK ", "UNKILLABLE", "NOGOODSLAVE", "ERR max number of clients",
}

// answerOf returns what a server said, and false for the client's own errors.
// Before Redis 7 the error of a command stands inside the one of its script.
func answerOf(err error) (text string, ok bool) {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return "", false
	}
	text = answer.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		if at := strings.LastIndex(text, ": -"); at >= 0 {
			text = text[at+len(": -"):]
		}
	}
	return text, true
}

// classify returns the class of an error of the client: an [ratelimit.ErrUnavailable],
// and an [ratelimit.ErrBackendBug] if waiting will not cure it.
func classify(err error) error {
	if err == nil || errors.Is(err, ratelimit.ErrUnavailable) {
		return err
	}
	if answer, ok := answerOf(err); ok {
		for _, o := range outages {
			if strings.HasPrefix(answer, o) {
				return outage(err)
			}
		}
		return bug(err)
	}
	return outage(err)
}

// recovered, deferred, makes an error of a panic: a hook of the client would end
// the process, since it runs on a goroutine that nobody else recovers.
func recovered(err *error) { //nolint:gocritic // it sets the result of who defers it
	if p := recover(); p != nil {
		*err = bug(fmt.Errorf("panic: %v", p))
	}
}

// unrouted returns the error for charges of which it is not known where to send
// them: that of the caller, if it has left.
func unrouted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("goredis: %w", context.Cause(ctx))
	}
	return classify(err)
}

// isNoScript tells whether a server lacks the script that it was asked for.
func isNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// isRedirect tells whether a key has moved to another server of a cluster.
func isRedirect(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "MOVED ") || strings.HasPrefix(err.Error(), "ASK "))
}

// isSplit tells whether the keys of a script are at two servers, while their slot
// moves. It did not run.
func isSplit(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "TRYAGAIN") }

// isLost tells whether an error may mean that a server of a cluster is gone, or
// no master any more: it does not answer, or says so.
func isLost(err error) bool {
	answer, ok := answerOf(err)
	if !ok {
		return err != nil
	}
	return isRedirect(err) || strings.HasPrefix(answer, "CLUSTERDOWN") || strings.HasPrefix(answer, "READONLY")
}

// isCrossSlot tells whether a server has the keys of a script in several places.
func isCrossSlot(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "CROSSSLOT")
}
