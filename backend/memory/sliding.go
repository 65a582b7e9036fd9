package memory

import (
	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// used returns what of w counts at w.at.
func (w *window) used() uint64 {
	return w.current + arith.MulDivUp(w.previous, w.left(), uint64(w.length))
}

// slidingOf returns the counts of a SLIDING_WINDOW at now, and the length that
// they were stored under.
func (s *shard) slidingOf(a ask, now int64) (w window, stored int64) {
	w = s.storedWindow(a, now)
	stored = w.length
	if length := a.limit.Window().Microseconds(); length != stored {
		w = window{current: min(w.used(), maxCount), at: w.at, length: length}
	}
	before := w.start()
	w.at = now
	switch w.start() {
	case before:
	case before + w.length:
		w.current, w.previous = 0, w.current
	default:
		w.current, w.previous = 0, 0
	}
	return w, stored
}

// slidingFits tells whether a has room.
func (s *shard) slidingFits(a ask, now int64) bool {
	w, _ := s.slidingOf(a, now)
	return w.used()+uint64(a.sum) <= uint64(a.most())
}

// settleSliding fills v for a and, if charge is set and a has room, charges it.
func (s *shard) settleSliding(a ask, now int64, charge bool, v *ratelimit.Verdict) {
	w, _ := s.slidingOf(a, now)
	used := w.used()
	sum, count := uint64(a.sum), uint64(a.most())
	*v = ratelimit.Verdict{Allowed: true}
	switch {
	case sum == 0:
	case sum > count:
		refuseForEver(v)
	case used+sum > count:
		refuse(v, wait(w.passesAfter(count-sum)))
	case charge:
		w.current += sum
		used += sum
		s.storeWindow(a.tag, &w, 1)
		v.Receipt = w.receipt()
	}
	v.Remaining = int64(arith.Less(uint64(a.limit.Most()), used))
	switch {
	case w.current > 0:
		v.ResetAfter = wait(w.left() + uint64(w.length))
	case w.previous > 0:
		v.ResetAfter = wait(w.left())
	}
}

// passesAfter returns how many µs it takes until at most room of w counts, which
// it does not now.
func (w *window) passesAfter(room uint64) uint64 {
	length := uint64(w.length)
	if room >= w.current {
		// What counts of the previous window is in the way.
		return w.left() - arith.MulDiv(room-w.current, length, w.previous)
	}
	// This window has to become the previous one, and to slide out.
	return w.left() + length - arith.MulDiv(room, length, w.current)
}

// adjustSliding applies d.
func (s *shard) adjustSliding(d *ratelimit.Delta, tag uint64, now int64) {
	w, stored := s.slidingOf(ask{limit: d.Limit, tag: tag}, now)
	if d.Units > 0 {
		w.current = plus(w.current, uint64(d.Units))
		s.storeWindow(tag, &w, 1)
		return
	}
	start, known := w.charged(d, stored)
	counted := &w.current
	switch {
	case !known:
		return
	case start == w.start():
	case start == w.start()-w.length:
		counted = &w.previous
	default:
		return
	}
	if back := min(uint64(-d.Units), uint64(d.Cost), *counted); back > 0 {
		*counted -= back
		s.storeWindow(tag, &w, 1)
	}
}
