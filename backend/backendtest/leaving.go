package backendtest

import (
	"context"
	"runtime"

	"github.com/protolimit/ratelimit"
)

// leavingChecks have callers that reuse what they passed as soon as a call
// returns. With the race detector, they find a backend that still looks at it.
func leavingChecks() []check {
	return []check{
		{"leaving/callers reuse slices and keys at once", func(e *env) { e.leave(false) }},
		{"leaving/callers whose context ends meanwhile do so too", func(e *env) { e.leave(true) }},
	}
}

// leave makes calls from one set of slices a caller, and overwrites them after
// each.
func (e *env) leave(cancelled bool) {
	const each = 50
	l, other := e.limit(ratelimit.TokenBucket, "1000/h", 0), e.limit(ratelimit.SlidingLog, "1000/h", 0)
	err := together(func(int) error {
		keys := [2][]byte{make([]byte, 6), make([]byte, 6)}
		charges, verdicts := make([]ratelimit.Charge, 2), make([]ratelimit.Verdict, 2)
		deltas := make([]ratelimit.Delta, 1)
		for range each {
			ctx, cancel := e.leaver(cancelled)
			copy(keys[0], "caller")
			copy(keys[1], "caller")
			charges[0] = ratelimit.Charge{Limit: l, Key: keys[0], Cost: 1}
			charges[1] = ratelimit.Charge{Limit: other, Key: keys[1], Cost: 1}
			err := e.backend.Take(ctx, charges, verdicts)
			left := err != nil && ctx.Err() != nil
			deltas[0] = delta(charges[0], verdicts[0], 1)
			scribble(keys, charges, verdicts)
			if err == nil {
				copy(keys[0], "caller")
				deltas[0].Key = keys[0]
				err = e.backend.Adjust(ctx, deltas)
				left = err != nil && ctx.Err() != nil
				deltas[0] = ratelimit.Delta{}
				scribble(keys, charges, verdicts)
			}
			cancel()
			if err != nil && !left {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.fail("error %v, want none", err)
	}
	for _, c := range []struct {
		limit *ratelimit.Limit
		cost  int64 // of a call and its adjustment
	}{{l, 2}, {other, 1}} {
		least := 1000 - c.cost*each*callers
		v := e.one(c.limit, 0)
		if v.Remaining < least || !cancelled && v.Remaining != least {
			e.fail("%v: got %s, want remaining %d", c.limit, formatVerdict(v), least)
		}
		if v := e.take(chargeKey(c.limit, "XXXXXX", 0))[0]; v.Remaining != 1000 {
			e.fail("%v: got %s for bytes that were no key during any call, want remaining 1000", c.limit, formatVerdict(v))
		}
	}
}

// leaver returns a context that may end during a call.
func (e *env) leaver(cancelled bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(e.ctx)
	if cancelled {
		go func() {
			runtime.Gosched()
			cancel()
		}()
	}
	return ctx, cancel
}

// scribble overwrites what a caller owns again.
func scribble(keys [2][]byte, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	for _, key := range keys {
		copy(key, "XXXXXX")
	}
	clear(charges)
	clear(verdicts)
}
