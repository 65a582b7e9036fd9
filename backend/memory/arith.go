package memory

import (
	"math"
	"math/bits"
	"time"

	"github.com/protolimit/ratelimit"
)

// maxCount is the largest level, in steps, and the largest count of a window:
// what a float64 holds exactly, which is what Redis computes with.
const maxCount = 1<<53 - 1

// mulDiv returns floor(a × b ÷ d), and the largest uint64 if that is more. d is
// above 0.
func mulDiv(a, b, d uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo / d
	}
	if hi >= d {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, d)
	return q
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, d uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	var q, r uint64
	switch {
	case hi == 0:
		q, r = lo/d, lo%d
	case hi >= d:
		return math.MaxUint64
	default:
		q, r = bits.Div64(hi, lo, d)
	}
	if r > 0 && q < math.MaxUint64 {
		q++
	}
	return q
}

// shiftLeft returns n << shift, and the largest uint64 if that is more.
func shiftLeft(n uint64, shift uint8) uint64 {
	if n > math.MaxUint64>>shift {
		return math.MaxUint64
	}
	return n << shift
}

// less returns a - b, at least 0.
func less(a, b uint64) uint64 { return a - min(a, b) }

// plus returns a + b, at most maxCount. a is at most maxCount.
func plus(a, b uint64) uint64 { return min(a+min(b, maxCount), maxCount) }

// wait returns µs as verdicts tell them.
func wait(us uint64) time.Duration {
	return time.Duration(min(us, uint64(ratelimit.MaxWait/time.Microsecond))) * time.Microsecond
}
