package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// What the primary may have charged before it failed is not charged again.
func TestLostCallsAreNotChargedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		p.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			_ = p.Backend.Take(context.Background(), charges, make([]ratelimit.Verdict, len(charges)))
			return errLost
		})
		granted(t, b, 30, l) // 20 of them reach the primary
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		if v, err := take(b, l); err != nil || v[0].Remaining != 1000-30-4 {
			t.Errorf("%d left, %v; want each of 34 calls counted once", v[0].Remaining, err)
		}
	})
}

// A call that fails alone, which opens no breaker, is settled all the same.
func TestGrantsWithoutAnOutageAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		p.breakWith(errDown)
		granted(t, b, 5, l)
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 1, l)
		synctest.Wait()
		if s := b.Status(); s.Settled != 5 || s.Ledger != 0 || s.Shards[0].Trips != 0 {
			t.Errorf("%v, want 5 units settled without a trip", s)
		}
	})
}

// Ten outages grant one further limit, not ten.
func TestManySwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 100, ratelimit.Local)
		total := 0
		for range 10 {
			p.breakWith(errDown)
			total += granted(t, b, 50, l)
			p.breakWith(nil)
			time.Sleep(2 * time.Second)
			total += granted(t, b, 4, l)
			time.Sleep(2 * time.Second)
		}
		if total > 200 {
			t.Errorf("%d calls are granted in ten switches, want at most 200", total)
		}
		if s := b.Status(); s.Shards[0].Trips != 10 || s.Dropped != 0 {
			t.Errorf("%v, want ten trips and nothing dropped", s)
		}
	})
}

// Neither do they if every settlement fails: what was granted goes on counting in
// the fallback, though Redis never learns of it, until it has drained.
func TestSwitchesWithoutSettlement(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		synctest.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			p.noAdjust = true
			b := newBreaker(t, p)
			l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 100, Window: time.Hour}, Algorithm: a})
			local := 0
			for range 10 {
				p.breakWith(errDown)
				local += granted(t, b, 50, l)
				p.breakWith(nil)
				time.Sleep(2 * time.Second)
				granted(t, b, 4, l)
				synctest.Wait()
			}
			if s := b.Status(); local < 90 || local > 102 || s.Shards[0].Trips != 10 || s.Settled != 0 || s.Dropped < uint64(local)/2 {
				t.Errorf("%v: the fallback granted %d in ten outages, want about the 100 of one limit: %v", l, local, s)
			}
			for range 3 * 60 { // a bucket that is not asked for is empty after its hour
				time.Sleep(time.Minute)
				granted(t, b, 1, perHour(t, "other", 1000, ratelimit.Local))
			}
			p.breakWith(errDown)
			if n := granted(t, b, 150, l); n != 100 {
				t.Errorf("%v: three hours later %d are granted, want 100", l, n)
			}
		})
	}
}

// A settlement that fails is dropped if it may have been made.
func TestFailedSettlementIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		p.noAdjust = true
		b := newBreaker(t, p)
		l := perHour(t, "b", 100, ratelimit.Local)
		trip(t, p, b, l)
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		if s := b.Status(); s.Dropped != 20 || s.Ledger != 0 || s.Settled != 0 || len(p.adjusted) != 1 {
			t.Errorf("%v, tried %d times; want 20 units dropped after one try", s, len(p.adjusted))
		}
	})
}

// What was given back of a grant of the fallback is not charged, whatever else is
// used of the bucket.
func TestRefundedGrantsAreNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		p.fleet = 2
		b := newBreaker(t, p)
		l := windowOf(t, "b", 100)
		p.breakWith(errDown)
		granted(t, b, 4, l)
		v, err := take(b, l)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 1, Units: -1, Receipt: v[0].Receipt}}); err != nil {
			t.Fatal(err)
		}
		p.breakWith(errLost)
		if v, err = take(b, l); err != nil || v[0].Remaining != 45 {
			t.Errorf("%+v, %v; want 45 left of a share of 50", v, err)
		}
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 1, l)
		synctest.Wait()
		if s := b.Status(); s.Settled != 4 || len(p.adjusted) != 1 {
			t.Errorf("%v, want 4 units charged", s)
		}
	})
}

// A charge of the primary is not given back while that is away, and the caller is
// told.
func TestRefundWhileThePrimaryIsAway(t *testing.T) {
	p := newPrimary(t)
	b := newBreaker(t, p)
	l := perHour(t, "b", 100, ratelimit.Local)
	v, err := take(b, l)
	if err != nil {
		t.Fatal(err)
	}
	trip(t, p, b, l)
	err = b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 1, Units: -1, Receipt: v[0].Receipt}})
	if !errors.Is(err, ratelimit.ErrUnavailable) || len(p.adjusted) != 0 {
		t.Errorf("a refund ends with %v and reaches the primary %d times, want unavailable", err, len(p.adjusted))
	}
}

// One that was certainly not sent is tried again.
func TestUnsentSettlementIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &unreachable{primary: newPrimary(t)}
		b := newBreaker(t, down)
		l := perHour(t, "b", 100, ratelimit.Local)
		trip(t, down.primary, b, l)
		down.breakWith(nil)
		down.refuses.Store(true)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		if s := b.Status(); s.Dropped != 0 || s.Ledger != 1 || s.Settled != 0 {
			t.Errorf("%v, want 20 units still to be charged", s)
		}
		down.refuses.Store(false)
		time.Sleep(2 * time.Second)
		granted(t, b, 1, l)
		synctest.Wait()
		if s := b.Status(); s.Dropped != 0 || s.Ledger != 0 || s.Settled != 20 {
			t.Errorf("%v, want 20 units charged", s)
		}
	})
}

type unreachable struct {
	*primary
	refuses atomic.Bool
}

func (u *unreachable) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	if u.refuses.Load() {
		return errDown
	}
	return u.primary.Adjust(ctx, deltas)
}

// Many buckets are charged in several calls, and one that hangs ends, as does the
// settlement then.
func TestSettlementIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 100, ratelimit.Local)
		outage := func() {
			p.breakWith(errDown)
			for n := range 250 {
				charges := []ratelimit.Charge{{Limit: l, Key: fmt.Append(nil, n), Cost: 1}}
				if err := b.Take(t.Context(), charges, make([]ratelimit.Verdict, 1)); err != nil {
					t.Fatal(err)
				}
			}
			p.breakWith(nil)
			time.Sleep(2 * time.Second)
			granted(t, b, 3, l)
		}
		outage()
		synctest.Wait()
		if s := b.Status(); s.Settled != 250 || p.atOnce != 100 {
			t.Errorf("%v, %d buckets at once, want 250 units, 100 at once", s, p.atOnce)
		}
		p.hangAdjust = true
		outage()
		time.Sleep(100 * time.Millisecond) // ten budgets
		synctest.Wait()
		if s := b.Status(); s.Dropped != 100 || s.Ledger != 150 || b.Doubts() != 100 {
			t.Errorf("%v, %d buckets in doubt, want 100 units dropped and kept in doubt", s, b.Doubts())
		}
		time.Sleep(2 * time.Hour)
		granted(t, b, 1, l)
		synctest.Wait()
		if b.Doubts() != 0 {
			t.Errorf("%d buckets are in doubt two hours later", b.Doubts())
		}
	})
}

// A shard that has another name after an outage, or had none before, is settled
// under the name that it has.
func TestRenamedShardIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renamed{primary: newPrimary(t)}
		b := newBreaker(t, r)
		l := perHour(t, "b", 1000, ratelimit.Local)
		r.breakWith(errDown)
		granted(t, b, 30, l)
		r.breakWith(nil)
		r.name = "new"
		time.Sleep(2 * time.Second)
		granted(t, b, 1, l)
		synctest.Wait()
		if s := b.Status(); s.Settled != 30 || s.Ledger != 0 {
			t.Errorf("%v, want 30 units settled", s)
		}
		time.Sleep(2 * time.Minute)
		granted(t, b, 1, l)
		if s := b.Status(); len(s.Shards) != 2 {
			t.Errorf("breakers are\n%v\nwant that of the shard that is away too", s)
		}
		time.Sleep(10 * time.Minute)
		granted(t, b, 1, l)
		if s := b.Status(); len(s.Shards) != 1 || s.Shards[0].Shard != "new" {
			t.Errorf("breakers are\n%v\nwant that of the shard that is met only", s)
		}
	})
}

type renamed struct {
	*primary
	name string
}

func (r *renamed) Shard(*ratelimit.Charge) string { return r.name }

// Close waits for a settlement under way and leaves nothing running.
func TestCloseWhileSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		granted(t, b, 10, l)
		p.breakWith(nil)
		p.hangAdjust = true
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		start := time.Now()
		if err := b.Close(); err != nil || time.Since(start) > 0 {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if s := b.Status(); s.Dropped != 30 || s.Settled != 0 || s.Ledger != 0 {
			t.Errorf("%v, want 30 units dropped", s)
		}
	})
}

// A shard in half-open with all its probes under way is away; the others are not.
func TestCallAcrossAHalfOpenShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, dead := perHour(t, "live", 1000, ratelimit.Deny), perHour(t, "dead", 1000, ratelimit.Local)
		s.down["dead"] = true
		granted(t, b, 30, dead)
		time.Sleep(2 * time.Second)
		release := make(chan struct{})
		s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			if charges[0].Limit == dead {
				<-release
			}
			return nil
		})
		for range 3 {
			go func() { _, _ = take(b, dead) }()
		}
		synctest.Wait()
		if stateOf(b, "dead") != gobreaker.StateHalfOpen {
			t.Fatalf("breakers are\n%v\nwant that of dead half-open", b.Status())
		}
		s.reached()
		if v, err := take(b, live, dead); err != nil || !v[0].Allowed || !v[1].Allowed || s.reached() != 1 {
			t.Errorf("a call across it: %+v, %v; want it decided", v, err)
		}
		close(release)
		synctest.Wait()
	})
}

// In half-open a caller who leaves neither closes nor opens a breaker, and makes
// room for another probe.
func TestProbesOfCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithOpen(time.Second, 1))
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		time.Sleep(2 * time.Second)
		p.breakBy(func(ctx context.Context, _ []ratelimit.Charge) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		for range 5 {
			ctx, cancel := context.WithCancelCause(t.Context())
			go cancel(errCaller)
			if _, err := takeCtx(ctx, b, 1, l); !errors.Is(err, errCaller) {
				t.Fatalf("the call ends with %v, want the caller's cause", err)
			}
		}
		if s := b.Status().Shards[0]; s.State != gobreaker.StateHalfOpen {
			t.Errorf("the breaker is %+v, want it half-open", s)
		}
		p.breakWith(nil)
		granted(t, b, 1, l)
		if s := b.Status().Shards[0]; s.State != gobreaker.StateClosed {
			t.Errorf("after a probe the breaker is %+v, want it closed", s)
		}
	})
}
