package memory

import (
	"time"

	"github.com/protolimit/ratelimit"
)

// maxCount is the largest level, in steps, and the largest count of a window:
// what a float64 holds exactly, which is what Redis computes with.
const maxCount = 1<<53 - 1

// plus returns a + b, at most maxCount. a is at most maxCount.
func plus(a, b uint64) uint64 { return min(a+min(b, maxCount), maxCount) }

// wait returns µs as verdicts tell them.
func wait(us uint64) time.Duration {
	return time.Duration(min(us, uint64(ratelimit.MaxWait/time.Microsecond))) * time.Microsecond
}
