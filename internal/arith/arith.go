// Package arith is the integer arithmetic that the backends share: products of
// 128 bits, and results that stop at the largest number instead of going round.
package arith

import (
	"math"
	"math/bits"
)

// MulDiv returns floor(a × b ÷ d), and the largest uint64 if that is more. d is
// above 0.
func MulDiv(a, b, d uint64) uint64 {
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

// MulDivUp is MulDiv rounded up.
func MulDivUp(a, b, d uint64) uint64 {
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

// ShiftLeft returns n << shift, and the largest uint64 if that is more.
func ShiftLeft(n uint64, shift uint8) uint64 {
	if n > math.MaxUint64>>shift {
		return math.MaxUint64
	}
	return n << shift
}

// Less returns a - b, at least 0.
func Less(a, b uint64) uint64 { return a - min(a, b) }
