package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// Ten switches in a minute hand out no new limit each: three evenly loaded
// instances grant what one limit does, whichever backend decides.
func TestSwitchesHandOutNoNewLimit(t *testing.T) {
	for _, c := range []struct {
		algorithm   ratelimit.Algorithm
		least, most int // granted in a minute that begins with a window
	}{
		{ratelimit.TokenBucket, 50, 62},
		{ratelimit.LeakyBucket, 50, 62},
		{ratelimit.FixedWindow, 28, 32},
		{ratelimit.SlidingWindow, 28, 32},
		{ratelimit.SlidingLog, 28, 32},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 30, Window: time.Minute}, Algorithm: c.algorithm})
				shared := newMemory(t)
				var primaries []*primary
				var fleet []*breaker.Backend
				for range 3 {
					p := &primary{Backend: shared, fleet: 3}
					primaries, fleet = append(primaries, p), append(fleet, newBreaker(t, p))
				}
				total := 0
				for i := range 600 { // every 100ms; every 6s the primary goes or comes back
					if i%60 == 30 {
						for _, p := range primaries {
							p.breakWith([]error{errDown, nil}[i/60%2])
						}
					}
					for _, b := range fleet {
						total += granted(t, b, 1, l)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if total < c.least || total > c.most {
					t.Errorf("%d are granted in a minute with ten switches, want %d to %d", total, c.least, c.most)
				}
			})
		})
	}
}
