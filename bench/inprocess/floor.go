package inprocess

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit/bench/harness"
)

// floorBytes is the size of the floor's array: what a million keys of 16 bytes
// take.
const floorBytes = 16 << 20

// A floor is the least that a decision can be made of: a read of the monotonic
// clock, a seeded hash of the key, and a swap on a cache line that the hash
// picks. It decides nothing.
type floor struct {
	start time.Time
	seed  maphash.Seed
	lines []line
}

// A line fills a cache line.
type line struct {
	last atomic.Int64
	_    [56]byte
}

func newFloor() *floor {
	f := &floor{time.Now(), maphash.MakeSeed(), make([]line, floorBytes/64)}
	for i := range f.lines {
		f.lines[i].last.Store(1) // the page is there before the first decision
	}
	return f
}

func (f *floor) worker(c *cursor) harness.Batch {
	return func(n int) error {
		for range n {
			now := int64(time.Since(f.start))
			l := &f.lines[maphash.Bytes(f.seed, c.next())%uint64(len(f.lines))]
			l.last.CompareAndSwap(l.last.Load(), now)
		}
		return nil
	}
}
