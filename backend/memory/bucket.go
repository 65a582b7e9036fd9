package memory

import (
	"math"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// A bucket is the state of TOKEN_BUCKET and LEAKY_BUCKET as it is at now.
type bucket struct {
	pos    int    // of its slot, or -1
	stored uint64 // the level when it was stored, in steps
	level  uint64 // the level now
	since  uint64 // µs between the two
}

// bucketOf reads the state of a's bucket; one that has none is empty.
func (s *shard) bucketOf(a ask, now int64) bucket {
	t := &s.tables[bucketKind]
	pos, found := t.find(a.tag)
	if !found {
		return bucket{pos: -1}
	}
	stored, at := unpackBucket(t.words[pos+1], t.words[pos+2], a.limit.Shift())
	if now <= at {
		// Later counts as now; a hot key is charged many times in one µs.
		return bucket{pos, stored, stored, 0}
	}
	since := uint64(now - at)
	return bucket{pos, stored, arith.Less(stored, drained(a.limit, since)), since}
}

// bucketFits tells whether a has room.
func (s *shard) bucketFits(a ask, now int64) bool {
	shift := a.limit.Shift()
	return s.bucketOf(a, now).level+uint64(a.sum)<<shift <= uint64(a.most())<<shift
}

// settleBucket fills v for a and, if charge is set and a has room, charges it.
func (s *shard) settleBucket(a ask, now int64, charge bool, v *ratelimit.Verdict) {
	b := s.bucketOf(a, now)
	shift := a.limit.Shift()
	count := a.limit.Most()
	burst := uint64(count) << shift
	most := burst
	if a.sum > count { // of a share
		most = uint64(a.most()) << shift
	}
	*v = ratelimit.Verdict{Allowed: true}
	switch want := uint64(a.sum) << shift; {
	case a.sum == 0:
	case a.sum > count && a.sum > a.most():
		refuseForEver(v)
	case b.level+want > most:
		refuse(v, wait(arith.Less(drainTime(a.limit, b.stored+want-most), b.since)))
	case charge:
		b.level += want
		empty := drainTime(a.limit, b.level)
		s.storeBucket(a, b.pos, b.level, now, empty)
		v.Receipt.At = now
		v.Remaining = int64(arith.Less(burst, b.level) >> shift)
		v.ResetAfter = wait(empty)
		return
	}
	v.Remaining = int64(arith.Less(burst, b.level) >> shift)
	if b.level > 0 {
		v.ResetAfter = wait(arith.Less(drainTime(a.limit, b.stored), b.since))
	}
}

// drained returns how many steps drain in some µs, rounded down.
func drained(l *ratelimit.Limit, us uint64) uint64 {
	num, den := l.Drain()
	return arith.MulDiv(us, num, den)
}

// drainTime returns how many µs it takes until some steps have drained, rounded
// up.
func drainTime(l *ratelimit.Limit, steps uint64) uint64 {
	num, den := l.Drain()
	return arith.MulDivUp(steps, den, num)
}

// storeBucket stores a level that is 0 some µs after now. pos is of the slot, or
// -1.
func (s *shard) storeBucket(a ask, pos int, level uint64, now int64, empty uint64) {
	t := &s.tables[bucketKind]
	due := int64(math.MaxInt64)
	if pos < 0 {
		pos = s.place(t, a.tag, now)
	} else {
		due = bucketIdleAt(t.words[pos+1], t.words[pos+2])
	}
	w1, w2 := packBucket(level, a.limit.Shift(), now, empty)
	t.words[pos+1], t.words[pos+2] = w1, w2
	if bucketIdleAt(w1, w2) < due {
		t.note(pos)
	}
}

// adjustBucket applies d.
func (s *shard) adjustBucket(d *ratelimit.Delta, tag uint64, now int64) {
	a := ask{limit: d.Limit, tag: tag}
	b := s.bucketOf(a, now)
	shift := d.Limit.Shift()
	level := b.level
	if d.Units > 0 {
		level = plus(level, arith.ShiftLeft(uint64(d.Units), shift))
	} else {
		num, den := d.Limit.Drain()
		gone := arith.MulDivUp(uint64(max(0, now-d.Receipt.At)), num, den)
		still := arith.Less(arith.ShiftLeft(uint64(d.Cost), shift), gone)
		back := min(arith.ShiftLeft(uint64(-d.Units), shift), still, level)
		if back == 0 {
			return
		}
		level -= back
	}
	s.storeBucket(a, b.pos, level, now, drainTime(d.Limit, level))
}
