package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	p, local := newPrimary(t), newMemory(t)
	inner := newBreaker(t, p)
	for name, c := range map[string]struct {
		primary ratelimit.Backend
		option  breaker.Option
	}{
		"a share that is no number":       {p, breaker.WithTrip(20, math.NaN(), time.Second)},
		"a window without end":            {p, breaker.WithTrip(1, 1, math.MaxInt64)},
		"an open time without end":        {p, breaker.WithOpen(math.MaxInt64, 1)},
		"a breaker that is the primary":   {inner, breaker.WithInstances(1)},
		"a breaker's own share of nobody": {p, breaker.WithInstances(0)},
	} {
		if b, err := breaker.New(c.primary, local, c.option); err == nil {
			_ = b.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}

// The order of options does not matter.
func TestSlowIsTheBudgetUnlessItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, struct{ ratelimit.Backend }{p}, breaker.WithSlow(5*time.Millisecond), breaker.WithBudget(50*time.Millisecond))
		p.breakBy(func(context.Context, []ratelimit.Charge) error {
			time.Sleep(6 * time.Millisecond)
			return nil
		})
		granted(t, b, 20, perHour(t, "b", 1000, ratelimit.Local))
		if s := b.Status().Shards[0]; s.State != gobreaker.StateOpen {
			t.Errorf("after 20 slow calls the breaker is %+v", s)
		}
	})
}

// A caller whose context ended since some other backend was away has left, which is
// no failure of this one.
func TestCallersWhoLeaveForAnOutage(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p)
	l := perHour(t, "b", 1000, ratelimit.Local)
	for range 50 {
		ctx, cancel := context.WithCancelCause(context.Background())
		p.breakBy(func(ctx context.Context, _ []ratelimit.Charge) error {
			cancel(fmt.Errorf("%w: another one", ratelimit.ErrUnavailable))
			return fmt.Errorf("primary: %w", context.Cause(ctx))
		})
		charges := []ratelimit.Charge{{Limit: l, Key: []byte("k"), Cost: 1}}
		if err := b.Take(ctx, charges, make([]ratelimit.Verdict, 1)); !errors.Is(err, context.Cause(ctx)) {
			t.Fatalf("a caller who left gets %v", err)
		}
	}
	if s := b.Status(); s.Shards[0].State != gobreaker.StateClosed || s.Shards[0].Cause != nil {
		t.Errorf("after 50 callers who left: %v", s)
	}
}

// A callback that panics ends neither the call nor the process.
func TestCallbackThatPanics(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p, breaker.WithOnTransition(func(breaker.Transition) { panic("callback") }))
	p.breakWith(ratelimit.ErrUnavailable)
	if n := granted(t, b, 30, perHour(t, "b", 1000, ratelimit.Local)); n != 30 {
		t.Errorf("%d of 30 calls were served", n)
	}
	if s := b.Status(); s.Shards[0].State != gobreaker.StateOpen || !errors.Is(s.Bug, ratelimit.ErrBackendBug) {
		t.Errorf("%v, want it open, and a bug", s)
	}
}
