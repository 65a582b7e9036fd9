package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
