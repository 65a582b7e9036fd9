package memory

import (
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// logOf reads the log of tag, and tells what of it counts at now: the entries
// from first on, which cost used together. The gone ones before it stay until
// the next charge.
func (s *shard) logOf(l *ratelimit.Limit, tag uint64, now int64) (stored log, first uint32, gone int, used uint64) {
	t := &s.tables[logKind]
	pos, found := t.find(tag)
	if !found {
		return log{}, 0, 0, 0
	}
	stored = unpackLog(t.words[pos : pos+t.stride])
	length := l.Window().Microseconds()
	first, used = stored.head, stored.used
	for first != 0 && now-s.slab.time(first) >= length {
		used -= s.slab.cost(first)
		first = s.slab.next(first)
		gone++
	}
	return stored, first, gone, used
}

// storeLog stores stored, which l was the last to change.
func (s *shard) storeLog(l *ratelimit.Limit, tag uint64, stored log, now int64) {
	stored.idleAt, stored.span = 0, 0
	if stored.count > 0 {
		newest := s.slab.time(stored.tail)
		stored.idleAt = newest + l.Window().Microseconds()
		stored.span = newest - s.slab.time(stored.head)
	}
	t := &s.tables[logKind]
	pos := s.place(t, tag, now)
	stored.pack(t.words[pos : pos+t.stride])
	t.note(pos)
}

// logFits tells whether a has room.
func (s *shard) logFits(a ask, now int64) bool {
	_, _, _, used := s.logOf(a.limit, a.tag, now)
	return used+uint64(a.sum) <= uint64(a.most())
}

// settleLog fills v for a and, if charge is set and a has room, charges it.
func (s *shard) settleLog(a ask, now int64, charge bool, v *ratelimit.Verdict) {
	stored, first, _, used := s.logOf(a.limit, a.tag, now)
	length := a.limit.Window().Microseconds()
	sum, count := uint64(a.sum), uint64(a.most())
	*v = ratelimit.Verdict{Allowed: true}
	switch {
	case sum == 0:
	case sum > count:
		refuseForEver(v)
	case used+sum > count:
		refuse(v, s.passesAfter(first, used+sum-count, length, now))
	case charge:
		used += sum
		v.Receipt = ratelimit.Receipt{At: now, Entry: s.appendLog(a.limit, a.tag, sum, now)}
		v.ResetAfter = wait(uint64(length))
	}
	v.Remaining = int64(arith.Less(uint64(a.limit.Most()), used))
	if used > 0 && v.ResetAfter == 0 {
		v.ResetAfter = s.goneAfter(stored.tail, length, now)
	}
}

// passesAfter returns how long it takes until entries are gone, the first of
// them being first, that cost need together.
func (s *shard) passesAfter(first uint32, need uint64, length, now int64) time.Duration {
	for e := first; ; e = s.slab.next(e) {
		cost := s.slab.cost(e)
		if cost >= need {
			return s.goneAfter(e, length, now)
		}
		need -= cost
	}
}

// goneAfter returns how long e still counts. A time later than now counts as now.
func (s *shard) goneAfter(e uint32, length, now int64) time.Duration {
	return wait(uint64(min(s.slab.time(e), now) + length - now))
}

// appendLog adds an entry to the log of tag and returns its name for receipts.
func (s *shard) appendLog(l *ratelimit.Limit, tag, cost uint64, now int64) uint64 {
	s.tidyLog(l, tag, now)
	stored, _, _, used := s.logOf(l, tag, now)
	cost = min(cost, maxCount-used)
	if cost == 0 {
		return 0
	}
	e := uint32(0)
	if stored.count < ratelimit.MaxLogCount {
		e = s.logEntry(tag, stored.count > 0, cost, now)
	}
	switch {
	case e == 0:
		e = stored.tail
		s.slab.setCost(e, s.slab.cost(e)+cost)
		s.slab.setTime(e, now)
	case stored.count == 0:
		stored = log{head: e, tail: e, count: 1}
	default:
		s.slab.link(e, 0, stored.tail)
		s.slab.link(stored.tail, e, s.slab.previous(stored.tail))
		stored.tail = e
		stored.count++
	}
	stored.used = used + cost
	s.storeLog(l, tag, stored, now)
	return s.slab.serial(e)
}

// tidyLog drops the entries of tag's log that are gone, and moves to now those
// that are later. What is left is not idle now.
func (s *shard) tidyLog(l *ratelimit.Limit, tag uint64, now int64) {
	stored, first, gone, used := s.logOf(l, tag, now)
	if stored.count == 0 {
		return
	}
	for later := stored.tail; later != 0 && s.slab.time(later) > now; later = s.slab.previous(later) {
		s.slab.setTime(later, now)
	}
	if gone == stored.count {
		s.slab.free(stored)
		s.storeLog(l, tag, log{}, now)
		return
	}
	s.cut(&stored, first, gone)
	stored.used = used
	s.storeLog(l, tag, stored, now)
}

// cut frees the oldest entries of l, so many, and makes first its head.
func (s *shard) cut(l *log, first uint32, gone int) {
	if gone == 0 {
		return
	}
	tail := s.slab.previous(first)
	s.slab.link(first, s.slab.next(first), 0)
	s.slab.free(log{count: gone, head: l.head, tail: tail})
	l.head = first
	l.count -= gone
}

// trim drops the entries that are gone of the log in a slot's words, which is
// not idle, under the limit that it was stored with. It returns how many.
func (s *shard) trim(words []uint64, now int64) (gone int) {
	l := unpackLog(words)
	newest := s.slab.time(l.tail)
	length := l.idleAt - newest
	first := l.head
	for now-s.slab.time(first) >= length {
		l.used -= s.slab.cost(first)
		first = s.slab.next(first)
		gone++
	}
	s.cut(&l, first, gone)
	l.span = newest - s.slab.time(first)
	l.pack(words)
	return gone
}

// logEntry takes an entry for the log of tag. If there is none left, an idle log
// makes room, if one is near; else it returns 0 with merge, by which the log's
// newest entry can take the cost too; else another log is forgotten.
func (s *shard) logEntry(tag uint64, merge bool, cost uint64, now int64) uint32 {
	for {
		if e := s.slab.entry(now, cost); e != 0 {
			return e
		}
		// No entry is left, so the shard has some, this log's or another's.
		t := &s.tables[logKind]
		pos, idleAt := t.nearestIdle(tag)
		if idleAt > now {
			if s.reclaim(&s.slab.watch, now) {
				continue
			}
			if merge {
				return 0
			}
			// Logs without entries may be gone now, and the others have moved.
			pos, _ = t.nearestIdle(tag)
			s.evictions++
		}
		s.recount(func() { t.remove(pos) })
	}
}

// adjustLog applies d.
func (s *shard) adjustLog(d *ratelimit.Delta, tag uint64, now int64) {
	if d.Units > 0 {
		s.appendLog(d.Limit, tag, uint64(d.Units), now)
		return
	}
	stored, _, _, _ := s.logOf(d.Limit, tag, now)
	e := s.slab.find(stored, d.Receipt)
	if e == 0 || now-s.slab.time(e) >= d.Limit.Window().Microseconds() {
		return
	}
	cost := s.slab.cost(e)
	back := min(uint64(-d.Units), uint64(d.Cost), cost)
	if back == 0 {
		return
	}
	s.tidyLog(d.Limit, tag, now)
	stored, _, _, _ = s.logOf(d.Limit, tag, now)
	stored.used -= back
	s.slab.setCost(e, cost-back)
	if back == cost {
		s.unlink(&stored, e)
	}
	s.storeLog(d.Limit, tag, stored, now)
}

// unlink frees e, an entry of l.
func (s *shard) unlink(l *log, e uint32) {
	next, previous := s.slab.next(e), s.slab.previous(e)
	if previous != 0 {
		s.slab.link(previous, next, s.slab.previous(previous))
	} else {
		l.head = next
	}
	if next != 0 {
		s.slab.link(next, s.slab.next(next), previous)
	} else {
		l.tail = previous
	}
	l.count--
	s.slab.free(log{count: 1, head: e, tail: e})
}
