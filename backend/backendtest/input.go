package backendtest

import (
	"context"
	"errors"
	"math"

	"github.com/protolimit/ratelimit"
)

// inputChecks are about calls that cannot be decided.
func inputChecks() []check {
	return []check{
		{"input/slices of different lengths are a bug", (*env).lengthsDiffer},
		{"input/a negative cost is a bug", (*env).negativeCost},
		{"input/a call of nothing is decided", (*env).nothing},
		{"input/a context that has ended is told, or the call is decided", (*env).endedContext},
		{"input/a closed backend is unavailable", (*env).closed},
	}
}

// wantBug fails unless err says that waiting will not help.
func (e *env) wantBug(what string, err error) {
	e.Helper()
	if !errors.Is(err, ratelimit.ErrBackendBug) || !errors.Is(err, ratelimit.ErrUnavailable) {
		e.fail("%s: error %v, want one that wraps ErrBackendBug", what, err)
	}
}

func (e *env) lengthsDiffer() {
	l := e.limit(ratelimit.TokenBucket, "5/s", 0)
	charges := []ratelimit.Charge{charge(l, 1), charge(l, 1)}
	for _, n := range []int{0, 1, 3} {
		e.wantBug("Take with slices of different lengths", e.backend.Take(e.ctx, charges, make([]ratelimit.Verdict, n)))
	}
	e.wantBug("Take without charges", e.backend.Take(e.ctx, nil, make([]ratelimit.Verdict, 1)))
	e.leaves(l, 5)
}

func (e *env) negativeCost() {
	for _, a := range everyAlgorithm {
		l, other := e.limit(a, "5/s", 0), e.limit(a, "5/s", 0)
		v := e.pass(l, 3)
		for _, cost := range []int64{-1, -3, math.MinInt64} {
			charges := []ratelimit.Charge{charge(other, 1), charge(l, cost)}
			e.wantBug("Take with a negative cost", e.backend.Take(e.ctx, charges, make([]ratelimit.Verdict, 2)))
			charges = []ratelimit.Charge{charge(l, cost), charge(l, 1)}
			e.wantBug("Take with a negative cost in a sum", e.backend.Take(e.ctx, charges, make([]ratelimit.Verdict, 2)))
			e.wantBug("Adjust with a negative cost", e.backend.Adjust(e.ctx, []ratelimit.Delta{delta(charge(l, cost), v, -1)}))
		}
		e.leaves(l, 2)
		e.leaves(other, 5)
	}
}

func (e *env) nothing() {
	e.take()
	if err := e.backend.Take(e.ctx, nil, nil); err != nil {
		e.fail("Take of nothing: error %v, want none", err)
	}
	if err := e.backend.Adjust(e.ctx, nil); err != nil {
		e.fail("Adjust of nothing: error %v, want none", err)
	}
}

func (e *env) endedContext() {
	l := e.limit(ratelimit.TokenBucket, "5/s", 0)
	cause := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(e.ctx)
	cancel(cause)
	told := func(what string, err error) {
		e.Helper()
		if err != nil && !errors.Is(err, cause) && !errors.Is(err, ratelimit.ErrUnavailable) {
			e.fail("%s with a context that has ended: error %v, want none, the context's cause or ErrUnavailable", what, err)
		}
		if errors.Is(err, ratelimit.ErrBackendBug) {
			e.fail("%s with a context that has ended: error %v, which is no bug", what, err)
		}
	}
	verdicts := make([]ratelimit.Verdict, 1)
	err := e.backend.Take(ctx, []ratelimit.Charge{charge(l, 2)}, verdicts)
	told("Take", err)
	left := e.one(l, 0).Remaining
	if err == nil && left != 3 || left != 3 && left != 5 {
		e.fail("remaining %d after Take with error %v, want 3 if it was decided, else 3 or 5", left, err)
	}
	told("Adjust", e.backend.Adjust(ctx, []ratelimit.Delta{delta(charge(l, 2), verdicts[0], -2)}))
	if after := e.one(l, 0).Remaining; after != left && after != 5 {
		e.fail("remaining %d after Adjust, want %d or 5", after, left)
	}
}

func (e *env) closed() {
	l := e.limit(ratelimit.TokenBucket, "5/s", 0)
	v := e.pass(l, 1)
	for i := range 2 {
		if err := e.backend.Close(); err != nil {
			e.fail("Close number %d: error %v, want none", i+1, err)
		}
		charges := []ratelimit.Charge{charge(l, 1)}
		if err := e.backend.Take(e.ctx, charges, make([]ratelimit.Verdict, 1)); !errors.Is(err, ratelimit.ErrUnavailable) {
			e.fail("Take after Close: error %v, want one that wraps ErrUnavailable", err)
		}
		if err := e.backend.Adjust(e.ctx, []ratelimit.Delta{delta(charges[0], v, -1)}); !errors.Is(err, ratelimit.ErrUnavailable) {
			e.fail("Adjust after Close: error %v, want one that wraps ErrUnavailable", err)
		}
	}
}
