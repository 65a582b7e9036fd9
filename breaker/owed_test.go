package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
)

// What is in doubt of a bucket is counted for every limit that is about it: rules
// that share it, and the same rule of a table that was loaded again.
func TestDoubtsAreOfABucket(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		rule := ratelimit.Rule{Rate: ratelimit.Rate{Count: 100, Window: time.Hour}, Algorithm: a}
		for name, again := range map[string]bool{"shared": false, "reloaded": true} {
			synctest.Test(t, func(t *testing.T) {
				p := newPrimary(t)
				p.noAdjust = true
				b := newBreaker(t, p)
				one, two := limitOf(t, "b", rule), limitOf(t, "b", rule)
				local := 0
				for range 10 {
					if again {
						one, two = limitOf(t, "b", rule), limitOf(t, "b", rule)
					}
					p.breakWith(errDown)
					local += granted(t, b, 200, one)
					p.breakWith(nil)
					time.Sleep(1300 * time.Millisecond)
					granted(t, b, 3, windowOf(t, "other", 1000))
					synctest.Wait()
					granted(t, b, 1, two)
				}
				if local < 90 || local > 102 {
					t.Errorf("%v, %s: the fallback granted %d in ten outages, want about the 100 of one limit", one, name, local)
				}
				if n := b.Doubts(); n != 1 {
					t.Errorf("%v, %s: %d buckets are in doubt, want 1", one, name, n)
				}
			})
		}
	}
}

// What all limits of a bucket owe is at most what is used of it.
func TestDebtsAreOfABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		rule := ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: 10 * time.Second}}
		p.breakWith(errDown)
		n := granted(t, b, 10, limitOf(t, "b", rule))
		time.Sleep(10 * time.Second)
		if n += granted(t, b, 10, limitOf(t, "b", rule)); n != 20 || b.Status().Ledger != 1 {
			t.Errorf("%d are granted: %v; want 20 of one bucket", n, b.Status())
		}
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, windowOf(t, "other", 1000))
		synctest.Wait()
		if s := b.Status(); s.Settled != 8 || s.Ledger != 0 {
			t.Errorf("%v, want the 8 units charged that have not drained", s)
		}
	})
}

// A settlement that fails, or whose primary is away again, leaves what it has not
// tried, which is settled later. Nothing is charged twice.
func TestSettlementEndsWithThePrimary(t *testing.T) {
	for name, away := range map[string]bool{"one call fails": false, "the primary is away": true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			b := newBreaker(t, p)
			l := perHour(t, "b", 100, ratelimit.Local)
			p.breakWith(errDown)
			for n := range 450 {
				if err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Key: fmt.Append(nil, n), Cost: 1}}, make([]ratelimit.Verdict, 1)); err != nil {
					t.Fatal(err)
				}
			}
			p.breakWith(nil)
			var tries atomic.Int64
			p.adjusting = func(context.Context) {
				switch {
				case tries.Add(1) != 1:
				case away:
					p.breakWith(errLost)
					granted(t, b, 30, l) // opens it; this settlement is made all the same
				default:
					p.noAdjust = true
				}
			}
			time.Sleep(2 * time.Second)
			granted(t, b, 3, l)
			synctest.Wait()
			if s := b.Status(); s.Ledger != 350+one(away) || tries.Load() != 1 {
				t.Errorf("%s: %v after %d tries, want 350 buckets left after one", name, s, tries.Load())
			}
			p.noAdjust = false
			p.breakWith(nil)
			for range 4 {
				time.Sleep(2 * time.Second)
				granted(t, b, 3, l)
				synctest.Wait()
			}
			s, times := b.Status(), map[string]int{}
			for _, d := range p.adjusted {
				times[string(d.Key)]++
			}
			delete(times, "alice")
			for key, n := range times {
				if n != 1 {
					t.Errorf("%s: %s is charged %d times", name, key, n)
				}
			}
			lost := uint64(100 * (1 - one(away)))
			if len(times) != 450 || s.Ledger != 0 || s.Dropped != lost || b.Doubts() != int64(lost) {
				t.Errorf("%s: %d buckets are tried, %d in doubt: %v", name, len(times), b.Doubts(), s)
			}
		})
	}
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// While a breaker is half-open only its probes reach the primary: refunds do not.
func TestNoRefundsInHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		v, err := take(b, l)
		if err != nil {
			t.Fatal(err)
		}
		trip(t, p, b, l)
		p.hangAdjust = true
		time.Sleep(2 * time.Second)
		if s := b.Status().Shards[0]; s.State != gobreaker.StateHalfOpen {
			t.Fatalf("the breaker is %+v, want it half-open", s)
		}
		refund := []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 1, Units: -1, Receipt: v[0].Receipt}}
		start := time.Now()
		if err := b.Adjust(t.Context(), refund); !errors.Is(err, ratelimit.ErrUnavailable) || len(p.adjusted) != 0 || time.Since(start) != 0 {
			t.Errorf("a refund ends with %v after %v and reaches the primary %d times, want unavailable at once", err, time.Since(start), len(p.adjusted))
		}
		p.hangAdjust = false
		p.breakWith(nil)
		granted(t, b, 3, l)
		synctest.Wait()
		p.adjusted = nil
		if err := b.Adjust(t.Context(), refund); err != nil || len(p.adjusted) != 1 {
			t.Errorf("then a refund ends with %v and reaches the primary %d times, want once", err, len(p.adjusted))
		}
	})
}

// Whatever a primary fails with, a rule that says Deny fails the call with an error
// that callers know.
func TestDeniedCallsAreUnavailable(t *testing.T) {
	foreign := errors.New("foreign")
	for _, c := range []struct{ is, want error }{
		{foreign, ratelimit.ErrUnavailable},
		{context.DeadlineExceeded, ratelimit.ErrUnavailable},
		{errLost, ratelimit.ErrUnavailable},
		{fmt.Errorf("%w: %w", ratelimit.ErrBackendBug, foreign), ratelimit.ErrBackendBug},
	} {
		p := newPrimary(t)
		b := newBreaker(t, p)
		p.breakWith(c.is)
		_, err := take(b, perHour(t, "b", 1000, ratelimit.Deny))
		if !errors.Is(err, c.want) || !errors.Is(err, c.is) {
			t.Errorf("with %v a call ends with %v, want both that and %v", c.is, err, c.want)
		}
		if errors.Is(err, ratelimit.ErrBackendBug) != errors.Is(c.is, ratelimit.ErrBackendBug) {
			t.Errorf("with %v it ends with %v, as a bug or not", c.is, err)
		}
	}
}

// A late refund, of a charge that has drained, leaves what others owe; one in time
// lowers it by what it gives back.
func TestLateRefundsLeaveDebts(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Minute) // to the start of a window
			p := newPrimary(t)
			b := newBreaker(t, p)
			l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: 10 * time.Second}, Algorithm: a})
			refund := func(cost int64, v ratelimit.Verdict) ratelimit.Delta {
				return ratelimit.Delta{Limit: l, Key: []byte("alice"), Cost: cost, Units: -cost, Receipt: v.Receipt}
			}
			p.breakWith(errDown)
			old, err := takeCtx(t.Context(), b, 10, l)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second) // it has drained
			n := granted(t, b, 7, l)
			recent, err := takeCtx(t.Context(), b, 3, l)
			if err != nil || n != 7 || !recent[0].Allowed {
				t.Fatalf("%v: %d and %+v are granted, %v; want 7 and 3", l, n, recent, err)
			}
			err = b.Adjust(t.Context(), []ratelimit.Delta{refund(10, old[0])})
			if owed := b.Owed(l, "alice"); err != nil || owed != 10 {
				t.Errorf("%v: after a late refund %d are owed, %v; want the 10 of others", l, owed, err)
			}
			if err := b.Adjust(t.Context(), []ratelimit.Delta{refund(10, old[0]), refund(3, recent[0])}); err != nil {
				t.Error(err)
			}
			v, err := takeCtx(t.Context(), b, 0, l)
			if owed := b.Owed(l, "alice"); err != nil || owed != 10-v[0].Remaining || owed != 7 {
				t.Errorf("%v: after a refund %d are owed and %d left, %v; want as many as are used", l, owed, v[0].Remaining, err)
			}
		})
	}
}

// A verdict of the primary that comes between a grant of the fallback and its note
// in the ledger takes nothing of either.
func TestVerdictsLeaveGrantsUnderWay(t *testing.T) {
	p := newPrimary(t)
	fallback := &paused{Backend: newMemory(t)}
	b, err := breaker.New(p, fallback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := perHour(t, "b", 100, ratelimit.Local)
	p.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
		if charges[0].Cost > 0 {
			return errDown
		}
		return nil
	})
	var reads sync.WaitGroup
	fallback.after = func() {
		reads.Go(func() { _, _ = takeCtx(context.Background(), b, 0, l) })
		time.Sleep(20 * time.Millisecond) // longer than that takes if it does not wait
	}
	if n := granted(t, b, 1, l); n != 1 {
		t.Fatalf("%d are granted, want 1", n)
	}
	reads.Wait()
	for deadline := time.Now().Add(5 * time.Second); b.Status().Ledger > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		_, _ = takeCtx(t.Context(), b, 0, l)
	}
	if s := b.Status(); s.Settled != 1 || s.Ledger != 0 {
		t.Errorf("%v, want the grant charged to the primary", s)
	}
}

// paused is a fallback that does something after its first grant.
type paused struct {
	*memory.Backend
	after func()
	once  sync.Once
}

func (p *paused) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	err := p.Backend.Take(ctx, charges, verdicts)
	if charges[0].Cost > 0 {
		p.once.Do(p.after)
	}
	return err
}
