package memory

import (
	"time"

	"github.com/protolimit/ratelimit"
)

// A bucket is the state of TOKEN_BUCKET and LEAKY_BUCKET as it is at now.
type bucket struct {
	stored uint64 // the level when it was stored, in steps
	level  uint64 // the level now
	since  uint64 // µs between the two
}

// bucketOf reads the state of a's bucket; one that has none is empty.
func (s *shard) bucketOf(a *ask, now int64) (b bucket) {
	t := &s.tables[bucketKind]
	pos, found := t.find(a.tag)
	if !found {
		return bucket{}
	}
	var at int64
	b.stored, at = unpackBucket(t.words[pos+1], t.words[pos+2], a.limit.Shift())
	b.since = uint64(max(0, now-at))
	num, den := a.limit.Drain()
	b.level = less(b.stored, mulDiv(b.since, num, den))
	return b
}

// bucketFits tells whether a has room.
func (s *shard) bucketFits(a *ask, now int64) bool {
	shift := a.limit.Shift()
	return s.bucketOf(a, now).level+uint64(a.sum)<<shift <= uint64(a.limit.Most())<<shift
}

// settleBucket fills v for a and, if charge is set and a has room, charges it.
func (s *shard) settleBucket(a *ask, now int64, charge bool, v *ratelimit.Verdict) {
	b := s.bucketOf(a, now)
	shift := a.limit.Shift()
	burst := uint64(a.limit.Most()) << shift
	*v = ratelimit.Verdict{Allowed: true}
	switch want := shiftLeft(uint64(a.sum), shift); {
	case a.sum == 0:
	case want > burst:
		refuseForEver(v)
	case b.level+want > burst:
		refuse(v, b.drains(a.limit, b.stored+want-burst))
	case charge:
		b = bucket{stored: b.level + want, level: b.level + want}
		s.storeBucket(a.limit, a.tag, b.level, now)
		v.Receipt.At = now
	}
	v.Remaining = int64(less(burst, b.level) >> shift)
	if b.level > 0 {
		v.ResetAfter = b.drains(a.limit, b.stored)
	}
}

// drains returns how long from now it takes until steps have drained since the
// level was stored.
func (b *bucket) drains(l *ratelimit.Limit, steps uint64) time.Duration {
	num, den := l.Drain()
	return wait(less(mulDivUp(steps, den, num), b.since))
}

// storeBucket stores a level at now. s.mu must be held.
func (s *shard) storeBucket(l *ratelimit.Limit, tag, level uint64, now int64) {
	num, den := l.Drain()
	t := &s.tables[bucketKind]
	pos := s.place(t, tag, now)
	empty := min(mulDivUp(level, den, num), maxTime)
	t.words[pos+1], t.words[pos+2] = packBucket(level, l.Shift(), now, empty)
}

// adjustBucket applies d.
func (s *shard) adjustBucket(d *ratelimit.Delta, tag uint64, now int64) {
	a := ask{limit: d.Limit, tag: tag}
	level := s.bucketOf(&a, now).level
	shift := d.Limit.Shift()
	if d.Units > 0 {
		s.storeBucket(d.Limit, tag, plus(level, shiftLeft(uint64(d.Units), shift)), now)
		return
	}
	num, den := d.Limit.Drain()
	drained := mulDivUp(uint64(max(0, now-d.Receipt.At)), num, den)
	still := less(shiftLeft(uint64(d.Cost), shift), drained)
	if back := min(shiftLeft(uint64(-d.Units), shift), still, level); back > 0 {
		s.storeBucket(d.Limit, tag, level-back, now)
	}
}
