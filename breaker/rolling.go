package breaker

import (
	"sync/atomic"
	"time"
)

// slots is into how many parts a window is cut; one part at a time ends.
const slots = 10

// A rolling counts what happened in a window, without a lock.
type rolling struct {
	period time.Duration // of a slot
	start  time.Time
	_      [64]byte             // each call writes what is between these, and reads what is around
	slots  [slots]atomic.Uint64 // its number in the upper half, its count in the lower
	_      [64]byte
}

// add counts one more.
func (r *rolling) add(now time.Time) {
	number := r.number(now)
	slot := &r.slots[number%slots]
	for {
		have := slot.Load()
		next := have + 1
		if old := uint32(have >> 32); old != number {
			if have > 0 && int32(number-old) < 0 { // the slot is of a later time already
				return
			}
			next = uint64(number)<<32 + 1
		}
		if uint32(next) == 0 || slot.CompareAndSwap(have, next) { // full, or done
			return
		}
	}
}

// sum returns the count of the window that ends now.
func (r *rolling) sum(now time.Time) uint64 {
	number, sum := r.number(now), uint64(0)
	for i := range r.slots {
		if have := r.slots[i].Load(); number-uint32(have>>32) < slots {
			sum += have & (1<<32 - 1)
		}
	}
	return sum
}

func (r *rolling) clear() {
	for i := range r.slots {
		r.slots[i].Store(0)
	}
}

// number returns the number of a slot; it wraps.
func (r *rolling) number(now time.Time) uint32 { return uint32(now.Sub(r.start) / r.period) }
