package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
)

// What has drained since it was granted is not charged at all.
func TestDrainedGrantsAreNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		b := newBreaker(t, p)
		l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 60, Window: time.Minute}})
		trip(t, p, b, l) // grants 20
		time.Sleep(15 * time.Second)
		p.breakWith(nil)
		granted(t, b, 3, l)
		synctest.Wait()
		if s := b.Status(); s.Settled != 5 || s.Ledger != 0 || s.Dropped != 0 {
			t.Errorf("%v, want the 5 units charged that had not drained in 15s", s)
		}
	})
}

// After a long outage a caller who kept to the limit owes at most what is still
// used of it, not all that was granted.
func TestOnlyWhatStillCountsIsSettled(t *testing.T) {
	for _, c := range []struct {
		algorithm   ratelimit.Algorithm
		least, most uint64 // of what is settled at a moment halfway through a window
	}{
		{ratelimit.TokenBucket, 26, 31},
		{ratelimit.LeakyBucket, 26, 31},
		{ratelimit.FixedWindow, 15, 31},
		{ratelimit.SlidingWindow, 15, 31},
		{ratelimit.SlidingLog, 15, 46},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			p.fleet = 2
			b := newBreaker(t, p)
			l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 60, Window: time.Minute}, Algorithm: c.algorithm})
			trip(t, p, b, l)
			for range 10*600 + 300 { // of 10.5 minutes, ten times a second
				granted(t, b, 1, l)
				time.Sleep(100 * time.Millisecond)
			}
			p.breakWith(nil)
			time.Sleep(2 * time.Second)
			granted(t, b, 3, l)
			synctest.Wait()
			if n := b.Status().Settled; n < c.least || n > c.most {
				t.Errorf("%v: %d units are charged after ten minutes, want %d to %d", l, n, c.least, c.most)
			}
			if v, err := take(b, l); err != nil || v[0].RetryAfter > time.Minute {
				t.Errorf("%v: then a caller gets %+v, %v; want no wait above a window", l, v, err)
			}
		})
	}
}
