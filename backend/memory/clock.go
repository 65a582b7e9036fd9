package memory

import "time"

// maxTime is the last microsecond that entries have room for, in 2255.
const maxTime = 1<<53 - 1

// A clock tells the time in µs since 1970, 1 to maxTime.
type clock struct {
	start time.Time        // when the clock was made; has a monotonic reading
	wall  int64            // start, in µs since 1970
	given func() time.Time // in place of the real one, for tests; or nil
}

func newClock(given func() time.Time) clock {
	start := time.Now()
	return clock{start: start, wall: clampTime(start.UnixMicro()), given: given}
}

// real reads the monotonic clock.
func (c *clock) real() int64 {
	return c.wall + int64(uint64(time.Since(c.start))/uint64(time.Microsecond))
}

// now reads the given clock, else the real one.
func (c *clock) now() int64 {
	if c.given != nil {
		return clampTime(c.given().UnixMicro())
	}
	return c.real()
}

// clampTime keeps times where entries have room for them. They begin at 1
// because a receipt's 0 says that nothing was charged.
func clampTime(t int64) int64 { return min(max(t, 1), maxTime) }
