package breaker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// A primary that is late sees the call as it was made, though its caller has the
// slices and the key back.
func TestLateCallsAreTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, struct{ ratelimit.Backend }{p})
		l := perHour(t, "b", 1000, ratelimit.Local)
		p.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			time.Sleep(time.Second)
			if c := charges[0]; string(c.Key) != "alice" || c.Cost != 1 {
				t.Errorf("the primary sees %d of %q, want 1 of alice", c.Cost, c.Key)
			}
			return nil
		})
		charges := []ratelimit.Charge{{Limit: l, Key: []byte("alice"), Cost: 1}}
		if err := b.Take(t.Context(), charges, make([]ratelimit.Verdict, 1)); err != nil {
			t.Fatal(err)
		}
		copy(charges[0].Key, "bob  ")
		charges[0].Cost = 2
		time.Sleep(2 * time.Second)
	})
}

// A call that began before the breaker opened, and fails after it has closed
// again, says nothing of the primary as it is now.
func TestLateFailuresAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p, breaker.WithTrip(1, 0.01, 10*time.Second))
		l := perHour(t, "b", 1000, ratelimit.Local)
		var calls atomic.Int64
		p.breakBy(func(context.Context, []ratelimit.Charge) error {
			switch calls.Add(1) {
			case 1:
				time.Sleep(5 * time.Second)
				return errDown
			case 2:
				return errDown
			}
			return nil
		})
		late := make(chan struct{})
		go func() {
			defer close(late)
			_, _ = take(b, l) // decided by the fallback
		}()
		synctest.Wait()
		granted(t, b, 1, l) // fails, and opens it
		time.Sleep(1250*time.Millisecond + 1)
		granted(t, b, 3, l) // close it
		<-late
		if s := b.Status().Shards[0]; s.State != gobreaker.StateClosed || s.Trips != 1 {
			t.Errorf("after a late failure the breaker is %+v, want closed, and opened once", s)
		}
	})
}
