package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
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
