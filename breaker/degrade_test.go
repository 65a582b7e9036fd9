package breaker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

func TestRulesSayWhatAnOutageMeans(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   []ratelimit.OnUnavailable
		granted int // of 20, at 10 an hour
		denied  bool
	}{
		{"local", []ratelimit.OnUnavailable{ratelimit.Local}, 10, false},
		{"allow", []ratelimit.OnUnavailable{ratelimit.Allow}, 20, false},
		{"local and allow", []ratelimit.OnUnavailable{ratelimit.Allow, ratelimit.Local}, 10, false},
		{"deny", []ratelimit.OnUnavailable{ratelimit.Local, ratelimit.Deny, ratelimit.Allow}, 0, true},
	} {
		p := newPrimary(t)
		b := newBreaker(t, p)
		p.breakWith(errDown)
		var limits []*ratelimit.Limit
		for i, on := range c.rules {
			limits = append(limits, perHour(t, string(rune('a'+i)), 10, on))
		}
		if c.denied {
			if _, err := take(b, limits...); !errors.Is(err, ratelimit.ErrUnavailable) || b.Status().Denied != 1 {
				t.Errorf("%s: %v, want unavailable", c.name, err)
			}
			if s := b.Status(); s.Local != 0 || s.Ledger != 0 {
				t.Errorf("%s: charged all the same: %v", c.name, s)
			}
			continue
		}
		if n := granted(t, b, 20, limits...); n != c.granted {
			t.Errorf("%s: %d of 20 calls are granted, want %d", c.name, n, c.granted)
		}
	}
}

// What is allowed says what it would leave, and no less than nothing.
func TestAllowedTellsWhatIsLeft(t *testing.T) {
	p := newPrimary(t)
	p.breakWith(errDown)
	b := newBreaker(t, p)
	for cost, left := range map[int64]int64{0: 10, 4: 6, 10: 0, 11: 0} {
		if v, err := takeCtx(t.Context(), b, cost, perHour(t, "b", 10, ratelimit.Allow)); err != nil || !v[0].Allowed || v[0].Remaining != left {
			t.Errorf("a cost of %d: %+v, %v; want %d left", cost, v, err, left)
		}
	}
}

// Three instances without their primary grant together what one limit does.
func TestInstancesShareTheLimit(t *testing.T) {
	for _, c := range []struct {
		algorithm ratelimit.Algorithm
		minute    int // granted in all by the end of the minute
		next      int // and of the next one
	}{
		{ratelimit.TokenBucket, 60, 90},
		{ratelimit.FixedWindow, 30, 60},
		{ratelimit.SlidingLog, 30, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 30, Window: time.Minute}, Algorithm: c.algorithm})
			var fleet []*breaker.Backend
			for range 3 {
				p := newPrimary(t)
				p.fleet = 3
				p.breakWith(errDown)
				fleet = append(fleet, newBreaker(t, p))
			}
			total := 0
			for range 60 {
				for _, b := range fleet {
					total += granted(t, b, 1, l)
				}
			}
			if total != 30 {
				t.Errorf("%v: %d granted at once, want 30", l, total)
			}
			for i, want := range []int{c.minute, c.next} {
				for range 599 {
					time.Sleep(100 * time.Millisecond)
					for _, b := range fleet {
						total += granted(t, b, 1, l)
					}
				}
				if total < want-4 || total > want+4 {
					t.Errorf("%v: %d granted after %d minutes, want %d", l, total, i+1, want)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// A cost that the whole limit can grant, but no share, passes all the same: an
// outage makes no call impossible.
func TestCostAboveTheShare(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		p := newPrimary(t)
		p.fleet = 3
		p.breakWith(errDown)
		b := newBreaker(t, p)
		l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: time.Hour}, Algorithm: a})
		v, err := takeCtx(context.Background(), b, 5, l)
		if err != nil || !v[0].Allowed {
			t.Errorf("%v: a cost of 5 of 10, on a share of 4: %+v, %v", a, v, err)
		}
		v, err = takeCtx(context.Background(), b, 5, l)
		if err != nil || v[0].Allowed || v[0].Reason != ratelimit.ReasonExceeded || v[0].RetryAfter <= 0 || v[0].RetryAfter == ratelimit.Never {
			t.Errorf("%v: the next one: %+v, %v; want it to wait", a, v, err)
		}
		if v, err = takeCtx(context.Background(), b, 11, l); err != nil || v[0].Reason != ratelimit.ReasonNever {
			t.Errorf("%v: a cost of 11: %+v, %v; want never", a, v, err)
		}
	}
}

// A switch hands out what was left, not a new limit.
func TestFallbackIsWarm(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		p := newPrimary(t)
		p.fleet = 2
		b := newBreaker(t, p)
		l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 100, Window: time.Hour}, Algorithm: a})
		granted(t, b, 80, l)
		p.breakWith(errLost) // else what the fallback grants is charged too
		if n := granted(t, b, 50, l); n != 10 {
			t.Errorf("%v: with 20 of 100 left and two instances, %d are granted, want 10", a, n)
		}
		p.breakWith(nil)
		if n := granted(t, b, 50, l); n != 20 {
			t.Errorf("%v: back on the primary %d are granted, want the 20 that were left", a, n)
		}
	}
}

// The verdicts of probes hand out nothing new, should the outage go on: not even of
// what the ledger has no room for.
func TestProbesDoNotMoveTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithLedger(0))
		l := perHour(t, "b", 100, ratelimit.Local)
		trip(t, p, b, l)
		if n := granted(t, b, 100, l); n != 80 {
			t.Errorf("%d more are granted, want 80", n)
		}
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 1, l) // of three probes
		p.breakWith(errDown)
		if n := granted(t, b, 50, l); n > 1 {
			t.Errorf("%d are granted after a probe, want nothing new", n)
		}
	})
}

// After the longest time, rules that say Local deny too.
func TestLongestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithLongest(time.Minute))
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		time.Sleep(59 * time.Second)
		if _, err := take(b, l); err != nil {
			t.Errorf("within the minute: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := take(b, l); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("after it: %v, want unavailable", err)
		}
	})
}

// Adjust waits for the primary no longer than the budget, whether that promises one
// or not.
func TestAdjustIsBounded(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			backend := ratelimit.Backend(p)
			release := make(chan struct{})
			p.hangAdjust = true
			if beside {
				backend = struct{ ratelimit.Backend }{p}
				p.adjusting = func(context.Context) { <-release } // and looks at no context
			}
			b := newBreaker(t, backend, breaker.WithBudget(20*time.Millisecond))
			l := perHour(t, "b", 10, ratelimit.Local)
			v, err := take(b, l)
			if err != nil {
				t.Fatal(err)
			}
			key := []byte("alice")
			back := []ratelimit.Delta{{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: v[0].Receipt}}
			start := time.Now()
			if err := b.Adjust(context.Background(), back); !errors.Is(err, ratelimit.ErrUnavailable) || time.Since(start) != 20*time.Millisecond {
				t.Errorf("Adjust: %v after %v, want unavailable after the budget", err, time.Since(start))
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errCaller)
			if err := b.Adjust(ctx, back); err == nil || time.Since(start) != 20*time.Millisecond {
				t.Errorf("Adjust of a caller who left: %v after %v, want an error at once", err, time.Since(start))
			}
			copy(key, "bob  ")
			close(release)
			synctest.Wait()
			if got := string(p.adjusted[0].Key); beside && got != "alice" {
				t.Errorf("a key of the caller's is used after Adjust: it is %q", got)
			}
		})
	}
}

// What is given back of a local grant is what still counts of the share.
func TestRefundOfAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		p.fleet = 2
		p.breakWith(errDown)
		b := newBreaker(t, p)
		l := perHour(t, "b", 100, ratelimit.Local)
		v, err := takeCtx(t.Context(), b, 10, l)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute) // in which 2.5 units drain of a share, and 5 of the whole
		if err := b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 10, Units: -10, Receipt: v[0].Receipt}}); err != nil {
			t.Fatal(err)
		}
		if v, err = takeCtx(t.Context(), b, 0, l); err != nil || v[0].Remaining < 49 {
			t.Errorf("%+v, %v; want all of the share of 50 back", v, err)
		}
	})
}

// Units go back to the backend that granted them.
func TestAdjustGoesWhereTheChargeWas(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p)
	l := perHour(t, "b", 10, ratelimit.Local)
	back := func(v ratelimit.Verdict) error {
		return b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 1, Units: -1, Receipt: v.Receipt}})
	}
	shared, err := take(b, l)
	if err != nil || back(shared[0]) != nil || len(p.adjusted) != 1 {
		t.Fatalf("a charge of the primary: %v, adjusted %v", err, p.adjusted)
	}
	p.breakWith(errDown)
	local, err := take(b, l)
	if err != nil || back(local[0]) != nil || len(p.adjusted) != 1 {
		t.Fatalf("a charge of the fallback: %v, adjusted %v", err, p.adjusted)
	}
	again, err := take(b, l)
	if err != nil || again[0].Remaining < local[0].Remaining-1 || again[0].Remaining > local[0].Remaining {
		t.Errorf("%d are left after a charge that was given back and one more, %v; want the %d after one", again[0].Remaining, err, local[0].Remaining)
	}
}
