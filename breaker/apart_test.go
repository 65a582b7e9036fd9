package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
)

// leftOf returns what the primary has left of alice's bucket.
func leftOf(t *testing.T, p ratelimit.Backend, l *ratelimit.Limit) int64 {
	t.Helper()
	v, err := takeCtx(t.Context(), p, 0, l)
	if err != nil {
		t.Fatal(err)
	}
	return v[0].Remaining
}

// A shard that fails during a call, before its breaker opens, is decided for as
// one that is away. The others are charged once, or not at all.
func TestShardFailsDuringACall(t *testing.T) {
	lost := func(s *sharded) func(context.Context, []ratelimit.Charge) error {
		return func(_ context.Context, charges []ratelimit.Charge) error {
			if charges[0].Limit.Bucket() != "dead" {
				return nil
			}
			_ = s.Backend.Take(context.Background(), charges, make([]ratelimit.Verdict, len(charges)))
			return errLost
		}
	}
	failing := func(err error) func(*sharded) func(context.Context, []ratelimit.Charge) error {
		return func(*sharded) func(context.Context, []ratelimit.Charge) error {
			return func(_ context.Context, charges []ratelimit.Charge) error {
				if charges[0].Limit.Bucket() != "dead" {
					return nil
				}
				return err
			}
		}
	}
	for _, c := range []struct {
		name       string
		broken     func(*sharded) func(context.Context, []ratelimit.Charge) error
		on         ratelimit.OnUnavailable
		live, dead int64 // limits an hour
		granted    int   // of 3 calls; -1 if they fail
		liveUsed   int64 // of the live shard
		owes       bool  // whether the primary lacks what was granted
		bugs       int
	}{
		{"unreachable", failing(errDown), ratelimit.Local, 1000, 1000, 3, 3, true, 0},
		{"lost", lost, ratelimit.Local, 1000, 1000, 3, 3, false, 0},
		{"a bug", failing(ratelimit.ErrBackendBug), ratelimit.Local, 1000, 1000, 3, 3, false, 3},
		{"refused by the fallback", failing(errDown), ratelimit.Local, 1000, 2, 2, 2, true, 0},
		{"lost, refused by the fallback", lost, ratelimit.Local, 1000, 2, 2, 2, false, 0},
		{"refused by the live shard", failing(errDown), ratelimit.Local, 1, 1000, 1, 1, true, 0},
		{"allowed", failing(errDown), ratelimit.Allow, 1000, 1000, 3, 3, false, 0},
		{"denied", failing(errDown), ratelimit.Deny, 1000, 1000, -1, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := newSharded(t)
				s.breakBy(c.broken(s))
				live, dead := perHour(t, "live", c.live, ratelimit.Local), perHour(t, "dead", c.dead, c.on)
				if c.granted < 0 {
					for range 3 {
						if _, err := take(b, live, dead); !errors.Is(err, ratelimit.ErrUnavailable) {
							t.Errorf("a call ends with %v, want unavailable", err)
						}
					}
				} else if n := granted(t, b, 3, live, dead); n != c.granted {
					t.Errorf("%d of 3 calls are granted, want %d", n, c.granted)
				}
				if used := c.live - leftOf(t, s.Backend, live); used != c.liveUsed {
					t.Errorf("the live shard counts %d units, want %d", used, c.liveUsed)
				}
				if used := c.dead - leftOf(t, s.Backend, dead); used > 3 {
					t.Errorf("the dead shard counts %d units of 3 calls", used)
				}
				if st := b.Status(); (st.Ledger > 0 || st.Settled > 0) != c.owes || st.Bugs != uint64(c.bugs) {
					t.Errorf("%v, want that something is owed to be %v, and %d bugs", st, c.owes, c.bugs)
				}
			})
		})
	}
}

// What the fallback told of a call that the live shard refused is no charge.
func TestRefusedByTheLiveShardChargesNothing(t *testing.T) {
	s, b := newSharded(t)
	s.down["dead"] = true
	none, dead := perHour(t, "live", 0, ratelimit.Local), perHour(t, "dead", 2, ratelimit.Local)
	if n := granted(t, b, 5, none, dead); n != 0 || b.Status().Ledger != 0 {
		t.Errorf("%d of 5 calls are granted, %v; want none", n, b.Status())
	}
	if n := granted(t, b, 5, dead); n != 2 {
		t.Errorf("then %d of 5 calls are granted, want 2: the others charged it", n)
	}
}

// A silent shard holds up a call for the budget, and its breaker hears of it; the
// others stay as they are.
func TestSilentShardDuringACall(t *testing.T) {
	for _, care := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newSharded(t)
			b := newBreaker(t, struct {
				ratelimit.Backend
				ratelimit.Sharder
			}{s, s})
			live, dead, none := perHour(t, "live", 1000, ratelimit.Local), perHour(t, "dead", 1000, ratelimit.Local), perHour(t, "none", 0, ratelimit.Local)
			calls := 0
			silent := func(ctx context.Context, charges []ratelimit.Charge) error {
				if charges[0].Limit.Bucket() != "dead" {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
			s.breakWith(nil)
			for range 25 {
				if care { // one that is given back
					if n := granted(t, b, 1, live, none); n != 0 {
						t.Fatal("a limit of 0 grants")
					}
				}
				s.breakBy(silent)
				start := time.Now()
				calls += granted(t, b, 1, live, dead)
				if took := time.Since(start); took > 10*time.Millisecond {
					t.Errorf("a call takes %v, want the budget", took)
				}
			}
			s.breakWith(nil)
			if used := 1000 - leftOf(t, s.Backend, live); calls != 25 || used != 25 {
				t.Errorf("%d of 25 calls are granted and the live shard counts %d, want all", calls, used)
			}
			if stateOf(b, "dead") != gobreaker.StateOpen || stateOf(b, "live") != gobreaker.StateClosed {
				t.Errorf("breakers are\n%v\nwant only that of dead open", b.Status())
			}
		})
	}
}

// A caller who leaves while one shard is asked gets its cause, and what the other
// granted is given back.
func TestCallerLeavesBetweenShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, slow := perHour(t, "live", 1000, ratelimit.Local), perHour(t, "slow", 1000, ratelimit.Deny)
		s.breakBy(func(ctx context.Context, charges []ratelimit.Charge) error {
			if charges[0].Limit == slow {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(errCaller)
		}()
		if _, err := takeCtx(ctx, b, 1, live, slow); !errors.Is(err, errCaller) {
			t.Errorf("the call ends with %v, want the caller's cause", err)
		}
		synctest.Wait()
		if left := leftOf(t, s.Backend, live); left != 1000 {
			t.Errorf("%d of 1000 are left of the live shard, want what it granted given back", left)
		}
		if st := b.Status(); st.Shards[0].Cause != nil || st.Shards[1].Cause != nil || st.Local != 0 || st.Denied != 0 {
			t.Errorf("%v, want that nothing failed", st)
		}
	})
}

// Charges on one bucket in a call that is given back are all given back, and their
// verdicts say so.
func TestGivesBackAllOfABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, none := windowOf(t, "live", 10), windowOf(t, "none", 0)
		for range 3 { // the first one without care
			v, err := take(b, live, none, live)
			if err != nil || !v[0].Allowed || v[1].Allowed || v[0].Remaining != 10 || v[2].Remaining != 10 || v[0].Receipt != (ratelimit.Receipt{}) {
				t.Errorf("a call that one shard refuses: %+v, %v", v, err)
			}
		}
		if left := leftOf(t, s.Backend, live); left != 10 {
			t.Errorf("%d of 10 are left, want all", left)
		}
	})
}

// windowOf returns a limit of some units in each hour, in which nothing drains.
func windowOf(t *testing.T, bucket string, n int64) *ratelimit.Limit {
	t.Helper()
	return limitOf(t, bucket, ratelimit.Rule{Rate: ratelimit.Rate{Count: n, Window: time.Hour}, Algorithm: ratelimit.FixedWindow})
}

// Many refused calls use nothing of the buckets that would have granted: what they
// hold for a moment does not drain in place of what others have used.
func TestRefusedCallsLetOthersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, none := limitOf(t, "live", ratelimit.Rule{Rate: ratelimit.Rate{Count: 100, Window: time.Second}}), windowOf(t, "none", 0)
		granted(t, b, 50, live)
		s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			if charges[len(charges)-1].Limit == none {
				time.Sleep(time.Millisecond) // for which the other one is held
			}
			return nil
		})
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for n := range 500 { // of another key each time
					charges := []ratelimit.Charge{{Limit: live, Key: []byte("alice"), Cost: 1}, {Limit: none, Key: fmt.Append(nil, caller, n), Cost: 1}}
					verdicts := make([]ratelimit.Verdict, 2)
					if err := b.Take(t.Context(), charges, verdicts); err != nil || verdicts[1].Allowed {
						t.Errorf("a call of a limit of 0: %+v, %v", verdicts, err)
					}
				}
			})
		}
		callers.Wait()
		s.breakWith(nil)
		if left := leftOf(t, s.Backend, live); left < 85 {
			t.Errorf("%d of 100 are left after a second of refused calls, want nearly all", left)
		}
	})
}

// A call that was refused goes out as a whole for a second, so that the primary may
// remember it. If it fails then, only the shard that is named is to blame.
func TestRefusedCallsGoOutWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		live, none := windowOf(t, "live", 1000), windowOf(t, "none", 0)
		for i, want := range []int{2, 1, 1} {
			if n := granted(t, b, 1, live, none); n != 0 || s.reached() != want {
				t.Errorf("call %d is granted, or does not reach the primary %d times", i, want)
			}
		}
		if left := leftOf(t, s.Backend, live); left != 1000 {
			t.Errorf("%d of 1000 are left of what refused nothing", left)
		}
		s.down["none"] = true
		granted(t, b, 25, live, none)
		if stateOf(b, "none") != gobreaker.StateOpen || stateOf(b, "live") != gobreaker.StateClosed {
			t.Errorf("breakers are\n%v\nwant only that of none open", b.Status())
		}
		if n := s.reached(); n != 25 {
			t.Errorf("25 calls reach the primary %d times", n)
		}
		s.down["none"] = false
		time.Sleep(2 * time.Second)
		for _, want := range []int{2, 1, 1, 1} { // the probes, too
			if n := granted(t, b, 1, live, none); n != 0 || s.reached() != want {
				t.Errorf("a probe is granted, or does not reach the primary %d times", want)
			}
		}
		if stateOf(b, "none") != gobreaker.StateClosed {
			t.Errorf("breakers are\n%v\nwant them closed", b.Status())
		}
		s.breakWith(errLost) // of which it is not known where it was
		granted(t, b, 25, live, none)
		if stateOf(b, "none") != gobreaker.StateOpen || stateOf(b, "live") != gobreaker.StateOpen {
			t.Errorf("breakers are\n%v\nwant both open", b.Status())
		}
	})
}

// A part that lacks room, and was only read since another refuses the call, is
// refused as if it had been asked; a window says no less than how long to wait.
func TestReadWithCareIsRefused(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		synctest.Test(t, func(t *testing.T) {
			s, b := newSharded(t)
			short := limitOf(t, "short", ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: time.Hour}, Algorithm: a})
			if _, err := takeCtx(t.Context(), s.Backend, 8, short); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			granted(t, b, 1, windowOf(t, "live", 10), windowOf(t, "none", 0)) // given back
			for _, cost := range []int64{5, 11} {
				v, err := takeCtx(t.Context(), b, cost, windowOf(t, "never", 0), short)
				asked, errAsked := takeCtx(t.Context(), s.Backend, cost, short)
				if err != nil || errAsked != nil {
					t.Fatal(err, errAsked)
				}
				got, want := v[1], asked[0]
				if a > ratelimit.LeakyBucket && got.RetryAfter > want.RetryAfter {
					want.RetryAfter = got.RetryAfter
				}
				if got.Allowed || got.Reason != want.Reason || got.Remaining != want.Remaining || (got.RetryAfter-want.RetryAfter).Abs() > 2*time.Microsecond {
					t.Errorf("%v: a cost of %d is refused with %+v, want %+v", short, cost, got, want)
				}
			}
		})
	}
}

// With care, too, a call that all shards grant is granted, and charged once.
func TestGrantedWithCare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		one, two, none := windowOf(t, "one", 4), windowOf(t, "two", 9), windowOf(t, "none", 0)
		for range 3 {
			granted(t, b, 1, one, none)
			if n := granted(t, b, 1, two, one); n != 1 {
				t.Error("a call with room in all shards is refused")
			}
		}
		if x, y := leftOf(t, s.Backend, one), leftOf(t, s.Backend, two); x != 1 || y != 6 {
			t.Errorf("%d and %d are left, want 1 and 6", x, y)
		}
		if v, err := takeCtx(t.Context(), b, 3, two, one); err != nil || !v[0].Allowed || v[1].Allowed || v[1].RetryAfter <= 0 || v[0].Remaining != 6 {
			t.Errorf("a call with room in one of two: %+v, %v", v, err)
		}
		if v, err := takeCtx(t.Context(), b, 7, two, one); err != nil || v[0].Allowed || v[0].RetryAfter <= 0 || v[1].Reason != ratelimit.ReasonNever {
			t.Errorf("a call with room in none of two: %+v, %v", v, err)
		}
	})
}
