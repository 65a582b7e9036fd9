package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// longestAlone is the longest budget of which a call that nobody else's is
	// beside goes out from its caller's own goroutine: so long it may take until
	// the caller sees that its context was cancelled.
	longestAlone = 20 * time.Millisecond
	// barredTime is how long no call does that after one was late, which costs its
	// connection: a stall costs one a second, not one a call.
	barredTime = time.Second
)

// alone is what a server knows of calls that go out from their callers' own
// goroutines. That spares them two hand-overs, each of which wakes a thread on a
// processor that Redis may need.
type alone struct {
	longest time.Duration // the longest budget of such calls; 0 for none
	barred  atomic.Int64  // until when, in ns since processStart
}

// allows tells whether a call with a budget may go out so now.
func (a *alone) allows(budget time.Duration) bool {
	return budget <= a.longest && int64(time.Since(processStart)) >= a.barred.Load()
}

func (a *alone) bar() { a.barred.Store(int64(time.Since(processStart) + barredTime)) }

// decideAlone decides a request from its caller's goroutine, if nothing is under
// way or waits, and this server has answered lately. Else it returns false, and
// nothing was charged.
func (s *server) decideAlone(ctx context.Context, r *request, budget time.Duration) (decided bool, err error) {
	if !s.greeting.done.Load() || !s.alone.allows(budget) {
		return false, nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < budget {
		return false, nil // it would cost a connection, of a server that is well
	}
	if !s.begin() {
		return false, nil
	}
	defer s.end()
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	b := s.batches.Get().(*batch)
	defer s.put(b)
	b.slot, b.script = r.slot, r.script()
	b.add(r)
	b.choose()
	cmd := command{redis.NewCmd(within, b.arguments(false, s.now())...)}
	err = s.process(within, cmd)
	if isRedirect(err) || isNoScript(err) { // it did not run
		return false, nil
	}
	if isTimeout(err) || within.Err() != nil { // as with a hook that is slow
		s.alone.bar()
	}
	if err != nil && ctx.Err() != nil {
		return true, fmt.Errorf("goredis: %w", context.Cause(ctx))
	}
	s.noticed(within, err)
	if isTimeout(err) {
		return true, outage(errLate)
	}
	b.answer(cmd, err)
	return !r.large, r.err
}

// process runs a command. A panic of a hook is its error.
func (s *server) process(ctx context.Context, cmd command) (err error) {
	defer recovered(&err)
	return s.client.Process(ctx, cmd)
}

// isTimeout tells whether a client has given up waiting.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// endsWithContext tells whether a command of a client ends with its context: what
// the caller has to say when a connection is made need not. Nor need hooks, which
// cannot be seen.
func endsWithContext(o *redis.Options) bool {
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
