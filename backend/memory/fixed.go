package memory

import (
	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// start returns when the window that holds w.at starts.
func (w *window) start() int64 { return w.at - w.at%w.length }

// left returns the µs from w.at to the end of the window that holds it.
func (w *window) left() uint64 { return uint64(w.length - w.at%w.length) }

// storedWindow reads the state of a's window, the one that a's limit would have
// if there is none. A time later than now counts as now.
func (s *shard) storedWindow(a ask, now int64) window {
	t := &s.tables[windowKind]
	pos, found := t.find(a.tag)
	if !found {
		return window{at: now, length: a.limit.Window().Microseconds()}
	}
	w := unpackWindow(t.words[pos : pos+t.stride])
	w.at = min(w.at, now)
	return w
}

// storeWindow stores w, which is changed at w.at. sliding is 1 for
// SLIDING_WINDOW, and 0 for FIXED_WINDOW.
func (s *shard) storeWindow(tag uint64, w *window, sliding uint64) {
	t := &s.tables[windowKind]
	pos := s.place(t, tag, w.at)
	w.pack(t.words[pos:pos+t.stride], sliding)
	t.note(pos)
}

// receipt names a charge to w. The entry is the length that it was made under.
func (w *window) receipt() ratelimit.Receipt {
	return ratelimit.Receipt{At: w.at, Entry: uint64(w.length)}
}

// charged returns the start of the window that d's charge was counted in. It is
// known only if no length changed since then; stored is the state's.
func (w *window) charged(d *ratelimit.Delta, stored int64) (start int64, known bool) {
	at := min(d.Receipt.At, w.at)
	return at - at%w.length, w.length == stored && d.Receipt.Entry == uint64(stored)
}

// fixedOf returns the count of a FIXED_WINDOW at now, and the length that it was
// stored under.
func (s *shard) fixedOf(a ask, now int64) (w window, stored int64) {
	w = s.storedWindow(a, now)
	stored, w.length = w.length, a.limit.Window().Microseconds()
	before := w.start()
	w.at = now
	if w.start() != before {
		w.current = 0
	}
	return w, stored
}

// fixedFits tells whether a has room.
func (s *shard) fixedFits(a ask, now int64) bool {
	w, _ := s.fixedOf(a, now)
	return w.current+uint64(a.sum) <= uint64(a.most())
}

// settleFixed fills v for a and, if charge is set and a has room, charges it.
func (s *shard) settleFixed(a ask, now int64, charge bool, v *ratelimit.Verdict) {
	w, _ := s.fixedOf(a, now)
	sum, count := uint64(a.sum), uint64(a.most())
	left := wait(w.left())
	*v = ratelimit.Verdict{Allowed: true}
	switch {
	case sum == 0:
	case sum > count:
		refuseForEver(v)
	case w.current+sum > count:
		refuse(v, left)
	case charge:
		w.current += sum
		s.storeWindow(a.tag, &w, 0)
		v.Receipt = w.receipt()
	}
	v.Remaining = int64(arith.Less(uint64(a.limit.Most()), w.current))
	if w.current > 0 {
		v.ResetAfter = left
	}
}

// adjustFixed applies d.
func (s *shard) adjustFixed(d *ratelimit.Delta, tag uint64, now int64) {
	w, stored := s.fixedOf(ask{limit: d.Limit, tag: tag}, now)
	if d.Units > 0 {
		w.current = plus(w.current, uint64(d.Units))
		s.storeWindow(tag, &w, 0)
		return
	}
	if start, known := w.charged(d, stored); !known || start != w.start() {
		return
	}
	if back := min(uint64(-d.Units), uint64(d.Cost), w.current); back > 0 {
		w.current -= back
		s.storeWindow(tag, &w, 0)
	}
}
