package memory

import "math"

const (
	// candidates is how many keys of each kind are compared to find one that
	// is forgotten.
	candidates = 8
	// enough is how many slots are looked at for candidates once there is one.
	enough = 64
	// evict looks for idle keys in the whole shard once for each sweepEvery µs
	// or each sweepShare of its keys that it forgot.
	sweepEvery = 1 << 20
	sweepShare = 4
)

// evict makes room for a key by forgetting another: an idle one, or else the one
// of a few candidates that will be idle first. s has a key.
func (s *shard) evict(now int64) {
	var victim *table
	where, idleAt := 0, int64(math.MaxInt64)
	for k := range s.tables {
		t := &s.tables[k]
		if pos, at := t.nearestIdle(0); at < idleAt {
			victim, where, idleAt = t, pos, at
		}
	}
	if idleAt > now {
		if s.sweepIsDue(now) {
			s.swept, s.sweptAfter = now, s.evictions
			if !s.sweep(now) {
				s.evict(now) // the candidates may have moved
			}
			return
		}
		s.evictions++
	}
	s.recount(func() { victim.remove(where) })
}

func (s *shard) sweepIsDue(now int64) bool {
	forgot := s.evictions - s.sweptAfter
	return now < s.swept || now-s.swept >= sweepEvery || forgot >= uint64(s.used())/sweepShare+1
}

// sweep forgets all idle keys, and tells whether there was one.
func (s *shard) sweep(now int64) bool {
	before := s.used()
	s.recount(func() {
		for k := range s.tables {
			s.tables[k].sweep(now)
		}
	})
	return s.used() < before
}

// nearestIdle returns the one of the next candidates that will be idle first,
// and when: the largest int64 if t has no key besides that of tag.
func (t *table) nearestIdle(tag uint64) (pos int, idleAt int64) {
	idleAt = math.MaxInt64
	pos, left := t.hand, min(candidates, t.used)
	for looked := 0; left > 0 && looked < len(t.words); looked += t.stride {
		if idleAt != math.MaxInt64 && looked >= enough*t.stride {
			break
		}
		if t.hand >= len(t.words) {
			t.hand = 0
		}
		if found := t.words[t.hand]; found != 0 && found != tag {
			left--
			if at := t.kind.idleAt(t.words, t.hand); at < idleAt {
				pos, idleAt = t.hand, at
			}
		}
		t.hand += t.stride
	}
	return pos, idleAt
}
