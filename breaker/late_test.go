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
