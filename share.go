package ratelimit

import (
	"math"
	"time"
)

// Share returns the limit as one of n equal instances enforces it by itself, so
// that all of them together enforce about l. Its buckets have the same name: used
// units convert as they do for any changed limit. With n below 2 it is l.
//
// A bucket algorithm has the same count in a window n times as long, so that the
// rates of all instances add up to the rate exactly, and the burst divided by n,
// rounded up. A window algorithm has the count divided by n, rounded up. A limit
// of 0 stays 0. The numbers may lie outside the ranges of a [Rule].
//
// [Limit.Largest] stays that of l: a cost above the share's burst, but not above
// the rule's, passes when nothing of its bucket is used, and takes it into debt.
func (l *Limit) Share(n int) *Limit {
	if n < 2 || l.rate.Count == 0 {
		return l
	}
	share := *l
	share.most = ceilDiv(l.most, int64(n))
	if !l.algorithm.HasBurst() {
		share.rate.Count = share.most
		share.count(1)
		return &share
	}
	share.count(uint64(n))
	share.rate.Window = math.MaxInt64 // what is longer cannot be told, but drains right
	if l.rate.Window <= math.MaxInt64/time.Duration(n) {
		share.rate.Window = l.rate.Window * time.Duration(n)
	}
	return &share
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
