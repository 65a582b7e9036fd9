package breaker_test

import (
	"context"
	"fmt"
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
