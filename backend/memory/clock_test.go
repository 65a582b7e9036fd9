package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
)

// Times that entries have no room for count as the nearest that they have.
func TestTimesOutOfRange(t *testing.T) {
	for _, c := range []struct {
		year int
		want int64
	}{{1960, 1}, {1970, 1}, {3000, maxTime}} {
		at := time.Date(c.year, time.January, 1, 0, 0, 0, 0, time.UTC)
		b := mustOpen(t, WithClock(func() time.Time { return at }))
		for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
			l := limit(t, "b", "2/s", a, 0)
			charge(t, b, l, "key", 1)
			got := charge(t, b, l, "key", 1)
			if !got.Allowed || got.Remaining != 0 || got.Receipt.At != c.want {
				t.Errorf("%v in %d: %+v, want it granted at %d", a, c.year, got, c.want)
			}
			if got := charge(t, b, l, "key", 1); got.Allowed {
				t.Errorf("%v in %d: %+v, want a refusal", a, c.year, got)
			}
		}
	}
}

// Without WithClock, time is the wall clock of the start, going on monotonically.
func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustOpen(t)
		l := limit(t, "b", "10/s", ratelimit.TokenBucket, 0)
		start := time.Now()
		if got := charge(t, b, l, "key", 10); got.Receipt.At != start.UnixMicro() {
			t.Errorf("%+v, want it granted at %d", got, start.UnixMicro())
		}
		got := charge(t, b, l, "key", 1)
		if got.Allowed || got.RetryAfter != 100*time.Millisecond {
			t.Errorf("%+v, want to wait for 100ms", got)
		}
		time.Sleep(got.RetryAfter - time.Microsecond)
		if got := charge(t, b, l, "key", 1); got.Allowed || got.RetryAfter != time.Microsecond {
			t.Errorf("%+v, want to wait for 1µs", got)
		}
		time.Sleep(time.Microsecond)
		if got := charge(t, b, l, "key", 1); !got.Allowed {
			t.Errorf("%+v, want it allowed after the wait", got)
		}
	})
}

// A wall clock that is set after the start moves nothing.
func TestRealClockIsMonotonic(t *testing.T) {
	c := newClock(nil)
	c.wall = 1_000 // as if the wall clock had been set forward by decades since
	if got, most := c.real(), 1_000+time.Since(c.start).Microseconds(); got < 1_000 || got > most+1_000_000 {
		t.Errorf("real() = %d, want 1000 to %d", got, most)
	}
	before := c.real()
	c.start = c.start.Add(-time.Hour)
	if got := c.real() - before; got < time.Hour.Microseconds() {
		t.Errorf("real() is %d µs later after an hour", got)
	}
}
