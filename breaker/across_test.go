package breaker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
)

// A call that goes out as a whole, and fails since one shard accepts no connection,
// may have been charged by the others: only that shard owes what the fallback
// granted, and none does if the error does not say which one it is.
func TestWholeCallOwesOnlyWhatWasNotSent(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		owed int64
	}{
		{"named", &ratelimit.ShardError{Shard: "dead", Err: errDown}, 1},
		{"unnamed", errDown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := newSharded(t)
				dead, live := windowOf(t, "dead", 10), windowOf(t, "live", 1000)
				if _, err := takeCtx(t.Context(), b, 11, dead, live); err != nil { // marks both as one to ask whole
					t.Fatal(err)
				}
				s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
					_ = s.Backend.Take(context.Background(), charges[1:], make([]ratelimit.Verdict, 1))
					return c.err
				})
				before := leftOf(t, s.Backend, live)
				if n := granted(t, b, 1, dead, live); n != 1 {
					t.Fatal("the fallback refuses what it has room for")
				}
				if n := b.Status().Ledger; n != c.owed {
					t.Errorf("%d buckets owe the primary, want %d", n, c.owed)
				}
				s.breakWith(nil)
				time.Sleep(2 * time.Second)
				granted(t, b, 1, windowOf(t, "live", 1000)) // what is owed is settled beside
				granted(t, b, 1, windowOf(t, "dead", 1000))
				synctest.Wait()
				if used := before - leftOf(t, s.Backend, live); used != 2 {
					t.Errorf("the live shard counts %d units of two calls", used)
				}
			})
		})
	}
}

// answersAfter makes the primary answer after some time, and end with its context.
func (s *sharded) answersAfter(took func([]ratelimit.Charge) time.Duration) {
	s.breakBy(func(ctx context.Context, charges []ratelimit.Charge) error {
		select {
		case <-time.After(took(charges)):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Shards that answer within the budget stay closed, however long a call takes that
// is read before it is charged.
func TestCareLeavesHealthyShardsClosed(t *testing.T) {
	for rtt := 2 * time.Millisecond; rtt < 10*time.Millisecond; rtt += 500 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			s, b := newSharded(t)
			s.answersAfter(func([]ratelimit.Charge) time.Duration { return rtt })
			one, two, none := windowOf(t, "one", 1e6), windowOf(t, "two", 1e6), windowOf(t, "none", 0)
			for n := range 200 {
				if n%10 == 0 { // one that is given back
					charges := []ratelimit.Charge{{Limit: one, Key: []byte("x"), Cost: 1}, {Limit: none, Key: fmt.Append(nil, n), Cost: 1}}
					if err := b.Take(t.Context(), charges, make([]ratelimit.Verdict, 2)); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				if granted(t, b, 1, one, two) != 1 || time.Since(start) > 10*time.Millisecond {
					t.Errorf("a call is refused, or takes %v", time.Since(start))
				}
			}
			st := b.Status()
			for _, shard := range st.Shards {
				if shard.Trips > 0 || shard.Cause != nil {
					t.Errorf("at %v a call breakers are\n%v\nwant that nothing failed", rtt, st)
				}
			}
			if st.Local > 10 {
				t.Errorf("at %v a call the fallback decided %d of 200 calls, want hardly any", rtt, st.Local)
			}
		})
	}
}

// A shard that answers what is read, and nothing that is charged, opens its breaker
// with care, too.
func TestCareOpensShardThatDoesNotCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSharded(t)
		b := newBreaker(t, struct {
			ratelimit.Backend
			ratelimit.Sharder
		}{s, s})
		s.answersAfter(func(charges []ratelimit.Charge) time.Duration {
			if charges[0].Limit.Bucket() == "stuck" && charges[0].Cost > 0 {
				return time.Minute
			}
			return 0
		})
		stuck, live, none := windowOf(t, "stuck", 5), windowOf(t, "live", 1000), windowOf(t, "none", 0)
		for range 50 {
			granted(t, b, 1, live, none) // given back, at times
			granted(t, b, 1, live, stuck)
		}
		if stateOf(b, "live") != gobreaker.StateClosed || stateOf(b, "stuck") == gobreaker.StateClosed {
			t.Errorf("breakers are\n%v\nwant only that of stuck open", b.Status())
		}
	})
}

// Refused calls use nothing of a live shard's bucket where an open shard's part is
// what the fallback refuses.
func TestRefusedLocallyLetsOthersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live := limitOf(t, "live", ratelimit.Rule{Rate: ratelimit.Rate{Count: 100, Window: time.Second}})
		none := windowOf(t, "none", 0)
		s.down["none"] = true
		granted(t, b, 30, none)
		if stateOf(b, "none") != gobreaker.StateOpen {
			t.Fatalf("breakers are\n%v\nwant that of none open", b.Status())
		}
		s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			time.Sleep(time.Millisecond)
			if s.down[charges[0].Limit.Bucket()] {
				return errDown
			}
			return nil
		})
		s.adjusting = func(context.Context) { time.Sleep(time.Millisecond) }
		if _, err := takeCtx(t.Context(), s.Backend, 50, live); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for n := 0; time.Since(start) < 500*time.Millisecond; n++ {
					charges := []ratelimit.Charge{{Limit: live, Key: []byte("alice"), Cost: 1}, {Limit: none, Key: fmt.Append(nil, caller, n), Cost: 1}}
					v := make([]ratelimit.Verdict, 2)
					if err := b.Take(t.Context(), charges, v); err != nil || v[1].Allowed || v[1].Reason == 0 || v[0].Receipt.At != 0 {
						t.Errorf("a call of a limit of 0: %+v, %v", v, err)
					}
				}
			})
		}
		callers.Wait()
		s.breakWith(nil)
		if left := leftOf(t, s.Backend, live); left < 95 {
			t.Errorf("%d of 100 are left after half a second of refused calls, want nearly all", left)
		}
	})
}

// With care, too, a call that the live shard and the fallback have room for is
// charged to both, and one that only the fallback refuses to neither.
func TestCareAcrossAnOpenShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, short := windowOf(t, "live", 100), windowOf(t, "dead", 3)
		allowed := perHour(t, "dead", 0, ratelimit.Allow)
		s.down["dead"] = true
		granted(t, b, 30, allowed)
		granted(t, b, 1, live, windowOf(t, "dead", 0)) // given back
		s.adjusted = nil
		if n := granted(t, b, 10, live, short); n != 3 {
			t.Errorf("%d of 10 calls are granted, want the 3 that the fallback has", n)
		}
		if left := leftOf(t, s.Backend, live); left != 97 || len(s.adjusted) > 0 {
			t.Errorf("%d of 100 are left, want 97; gave back %v", left, s.adjusted)
		}
		if v, err := takeCtx(t.Context(), b, 98, live, short); err != nil || v[0].Allowed || v[1].Allowed || v[1].Reason != ratelimit.ReasonNever {
			t.Errorf("a call that both refuse: %+v, %v", v, err)
		}
		if n := granted(t, b, 5, live, allowed); n != 5 {
			t.Errorf("%d of 5 calls are granted, want those that a rule allows", n)
		}
		s.down["live"] = true
		if n := granted(t, b, 30, live, short); n != 0 || stateOf(b, "live") != gobreaker.StateOpen {
			t.Errorf("%d calls are granted, %v; want none, and live open", n, b.Status())
		}
	})
}
