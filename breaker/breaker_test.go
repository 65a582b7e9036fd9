package breaker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// trip makes enough calls fail for the breaker to open.
func trip(t *testing.T, p *primary, b *breaker.Backend, l *ratelimit.Limit) {
	t.Helper()
	p.breakWith(errDown)
	for range 20 {
		if _, err := take(b, l); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.Status().Shards[0]; s.State != gobreaker.StateOpen || s.Trips != 1 || !errors.Is(s.Cause, ratelimit.ErrUnavailable) {
		t.Fatalf("after 20 failures the breaker is %+v, want open once", s)
	}
	p.reached()
}

func TestOpensAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []string
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithOnTransition(func(tr breaker.Transition) {
			states = append(states, tr.From.String()+">"+tr.To.String())
			if (tr.Cause != nil) != (tr.To == gobreaker.StateOpen) {
				t.Errorf("cause of %v is %v", tr, tr.Cause)
			}
		}))
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		if _, err := take(b, l); err != nil || p.reached() != 0 {
			t.Errorf("an open breaker asks the primary, or fails: %v", err)
		}
		p.breakWith(nil)
		time.Sleep(1250*time.Millisecond + 1)
		for range 3 {
			if _, err := take(b, l); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if s := b.Status(); s.Shards[0].State != gobreaker.StateClosed || p.reached() != 3 || s.Shards[0].Degraded < time.Second {
			t.Errorf("after three probes the breaker is %+v", s)
		}
		if got := strings.Join(states, " "); got != "closed>open open>half-open half-open>closed" {
			t.Errorf("was told %s", got)
		}
	})
}

// What the fallback granted is charged to the primary once it is back, once.
func TestGrantsOfAnOutageAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		granted(t, b, 10, l)
		if s := b.Status(); s.Ledger != 1 || s.Local != 30 {
			t.Errorf("in the outage: %v", s)
		}
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		if s := b.Status(); s.Ledger != 0 || s.Settled != 30 || s.Dropped != 0 {
			t.Errorf("after it: %v", s)
		}
		verdicts, err := take(b, l)
		if err != nil || verdicts[0].Remaining != 1000-30-4 {
			t.Errorf("%d left, %v; want all grants counted once", verdicts[0].Remaining, err)
		}
	})
}

func TestLedgerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithLedger(1))
		l, other := perHour(t, "b", 1000, ratelimit.Local), perHour(t, "c", 1000, ratelimit.Local)
		trip(t, p, b, l)
		granted(t, b, 5, other)
		if s := b.Status(); s.Ledger != 1 || s.Dropped != 5 {
			t.Errorf("%v, want one bucket and 5 units dropped", s)
		}
	})
}

// 1,000 callers who leave say nothing of the primary.
func TestCallersWhoLeaveAreNeutral(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p)
	l := perHour(t, "b", 1000, ratelimit.Deny)
	p.breakBy(func(ctx context.Context, _ []ratelimit.Charge) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	for range 1000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(errCaller)
		if _, err := takeCtx(ctx, b, 1, l); !errors.Is(err, errCaller) || errors.Is(err, ratelimit.ErrUnavailable) {
			t.Fatalf("the call ends with %v, want the caller's cause", err)
		}
	}
	if s := b.Status(); s.Local != 0 || s.Denied != 0 {
		t.Errorf("callers who left were decided for: %v", s)
	}
	if s := b.Status().Shards; len(s) > 0 && (s[0].State != gobreaker.StateClosed || s[0].Cause != nil) {
		t.Errorf("after 1,000 callers left the breaker is %+v", s[0])
	}
}

// A bug is decided by the fallback, and opens nothing that would hide it.
func TestBugsDoNotOpen(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p)
	p.breakWith(ratelimit.ErrBackendBug)
	if n := granted(t, b, 100, perHour(t, "b", 1000, ratelimit.Local)); n != 100 || p.reached() != 100 {
		t.Errorf("%d of 100 calls were served", n)
	}
	if _, err := take(b, perHour(t, "c", 1000, ratelimit.Deny)); !errors.Is(err, ratelimit.ErrBackendBug) {
		t.Errorf("a rule that denies ends with %v, want the bug", err)
	}
	if s := b.Status(); s.Bugs != 101 || !errors.Is(s.Bug, ratelimit.ErrBackendBug) || !strings.Contains(s.String(), "101 calls met a bug") {
		t.Errorf("%v, want 101 bugs and the last", s)
	}
}

func TestSlowCallsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, struct{ ratelimit.Backend }{p}, breaker.WithSlow(5*time.Millisecond)) // without its budget
		l := perHour(t, "b", 1000, ratelimit.Local)
		p.breakBy(func(context.Context, []ratelimit.Charge) error {
			time.Sleep(6 * time.Millisecond)
			return nil
		})
		if n := granted(t, b, 20, l); n != 20 || b.Status().Local != 0 {
			t.Errorf("slow verdicts were not used: %v", b.Status())
		}
		if s := b.Status().Shards[0]; s.State != gobreaker.StateOpen {
			t.Errorf("after 20 slow calls the breaker is %+v", s)
		}
	})
}

// A primary that never answers keeps no caller longer than the budget, and no
// breaker half-open.
func TestHungPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		release := make(chan struct{})
		hung := struct{ ratelimit.Backend }{p} // keeps no budget itself
		b := newBreaker(t, hung, breaker.WithBudget(10*time.Millisecond))
		l := perHour(t, "b", 1000, ratelimit.Local)
		hang := func(context.Context, []ratelimit.Charge) error { <-release; return errDown }
		p.breakBy(hang)
		for range 3 {
			for range 25 {
				start := time.Now()
				if _, err := take(b, l); err != nil || time.Since(start) > 10*time.Millisecond {
					t.Fatalf("a call took %v: %v", time.Since(start), err)
				}
			}
			time.Sleep(2 * time.Second)
		}
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		if s := b.Status().Shards[0]; s.State != gobreaker.StateClosed {
			t.Errorf("when the primary answers again the breaker is %+v", s)
		}
		close(release)
		synctest.Wait()
	})
}

// Of many calls in half-open, only the probes reach the primary.
func TestHalfOpenLetsOnlyProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		p.breakBy(func(context.Context, []ratelimit.Charge) error { time.Sleep(time.Second); return nil })
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if v, err := take(b, l); err != nil || !v[0].Allowed {
					t.Errorf("a call in half-open: %+v, %v", v, err)
				}
			})
		}
		wg.Wait()
		if n := p.reached(); n > 3 {
			t.Errorf("%d calls reached the primary, want at most 3", n)
		}
	})
}

// A primary whose budget is longer than the breaker's is not waited for that long.
func TestLongerBudgetOfThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, patient{p})
		p.breakBy(func(ctx context.Context, _ []ratelimit.Charge) error {
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		if n := granted(t, b, 1, perHour(t, "b", 10, ratelimit.Local)); n != 1 || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%d granted after %v, want one after the budget", n, time.Since(start))
		}
	})
}

type patient struct{ *primary }

func (patient) Budget() time.Duration { return time.Minute }

// What a breaker counted before an outage does not keep it from opening after it.
func TestOpensAsSoonAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithTrip(20, 0.5, 10*time.Second), breaker.WithOpen(time.Second, 1))
		l := perHour(t, "b", 1000, ratelimit.Local)
		granted(t, b, 30, l)
		for trips := range 3 {
			p.breakWith(errDown)
			granted(t, b, 20, l)
			if s := b.Status().Shards[0]; trips > 0 && s.Trips != trips+1 {
				t.Errorf("20 failures later the breaker is %+v, want it opened %d times", s, trips+1)
			}
			granted(t, b, 10, l)
			p.breakWith(nil)
			time.Sleep(2 * time.Second)
			granted(t, b, 1, l)
		}
	})
}

func TestNewErrors(t *testing.T) {
	p := newPrimary(t)
	for want, opt := range map[string]breaker.Option{
		"breaker: New: an option is nil, want one of the With functions": nil,
		"breaker: WithBudget: budget is 0s, want 1ms to 1m":              breaker.WithBudget(0),
		"breaker: WithSlow: d is 0s, want above 0":                       breaker.WithSlow(0),
		"breaker: WithInstances: n is 0, want 1 or more":                 breaker.WithInstances(0),
		"breaker: WithLedger: n is -1, want 0 or more":                   breaker.WithLedger(-1),
		"breaker: WithLongest: d is -1ns, want 0 or more":                breaker.WithLongest(-1),
	} {
		if _, err := breaker.New(p, p, opt); err == nil || err.Error() != want {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
	if _, err := breaker.New(nil, p); err == nil {
		t.Error("New without a primary succeeds")
	}
}
