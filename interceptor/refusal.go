package interceptor

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
)

// Domain is the domain of the google.rpc.ErrorInfo in the status of each call that
// was refused, or that ends with UNAVAILABLE since it could not be decided. It
// tells them from other failures with the same code.
const Domain = "github.com/protolimit/ratelimit"

// reasonUnavailable is the ErrorInfo's reason of a call that was not decided.
const reasonUnavailable = "RATE_LIMITER_UNAVAILABLE"

// The metadata that tells the quota, and when to come back.
const (
	policyKey   = "ratelimit-policy"
	quotaKey    = "ratelimit"
	pushbackKey = "grpc-retry-pushback-ms"
)

// The statuses of calls that were not decided. They say nothing of the cause,
// which is the observer's.
var (
	errUnavailable = new(draft).errorInfo(reasonUnavailable).err(codes.Unavailable, "the rate limiter is unavailable")
	errFailed      = status.Error(codes.Internal, "the rate limiter failed")
)

// drafts are reused: a status copies what it is made of.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// refusal returns the status of a refused call.
func refusal(d *ratelimit.Decision) error {
	rule, verdict := &d.Rules[d.Binding], &d.Verdicts[d.Binding]
	s := drafts.Get().(*draft).errorInfo(verdict.Reason.String(), "rule", rule.Name, "method", d.Method)
	if verdict.RetryAfter != ratelimit.Never {
		s.retryInfo(verdict.RetryAfter)
	}
	err := s.quotaFailure(d).err(codes.ResourceExhausted, message(d))
	s.reset()
	drafts.Put(s)
	return err
}

// message says for a person what was refused.
func message(d *ratelimit.Decision) string {
	rule := strconv.Quote(d.Rules[d.Binding].Name)
	if d.Verdicts[d.Binding].Reason == ratelimit.ReasonNever {
		return "rate limit exceeded: rule " + rule + " can never grant a cost of " + strconv.FormatInt(d.Cost(), 10)
	}
	return "rate limit exceeded: rule " + rule
}

// refusalTrailer returns the metadata that goes with a refusal. Its pushback is -1
// where the wait is longer than the call has time.
func (s *server) refusalTrailer(ctx context.Context, d *ratelimit.Decision) metadata.MD {
	wait := d.RetryAfter()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		// The client would sleep until its deadline, and see that in place of the
		// refusal.
		wait = ratelimit.Never
	}
	v := [3]string{pushback(wait)}
	if !s.quotaTrailers {
		return metadata.MD{pushbackKey: v[:1]}
	}
	v[1], v[2] = d.Policy(), d.Quota()
	return metadata.MD{pushbackKey: v[:1:1], policyKey: v[1:2:2], quotaKey: v[2:]}
}

// pushback returns a delay as gRPC's retry design (gRFC A6) writes it: whole
// milliseconds in a signed 32-bit number, here rounded up and at least 1; -1
// forbids a retry.
func pushback(wait time.Duration) string {
	if wait == ratelimit.Never {
		return "-1"
	}
	ms := int64(wait / time.Millisecond)
	if wait%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(min(max(ms, 1), math.MaxInt32), 10)
}
