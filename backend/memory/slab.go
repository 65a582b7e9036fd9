package memory

import "github.com/protolimit/ratelimit"

// A slab is a shard's part of the arena: the entries of its logs, and a few that
// it has in store. The shard's mutex guards it.
type slab struct {
	*arena
	spare  uint32 // first of the entries in store; the others follow by next
	spares int    // how many they are
	used   int    // entries in logs
	number uint64 // the latest serial number
}

// entry returns an entry of its own, in no list, or 0 if there is none left.
func (s *slab) entry(at int64, cost uint64) uint32 {
	if s.spares == 0 {
		s.spare, s.spares = s.take(s.used == 0)
		if s.spares == 0 {
			return 0
		}
	}
	e := s.spare
	s.spare = s.next(e)
	s.spares--
	s.used++
	s.number++
	*s.at(e) = [entryWords]uint64{uint64(at), 0, cost, s.number}
	return e
}

// free gives back the entries of l, however many they are, at once.
func (s *slab) free(l log) {
	if l.count == 0 {
		return
	}
	s.used -= l.count
	switch {
	case s.used == 0:
		s.flush()
		s.give(l.head, l.tail, l.count, true)
	case s.spares+l.count <= s.batch:
		s.link(l.tail, s.spare, 0)
		s.spare = l.head
		s.spares += l.count
	default:
		s.give(l.head, l.tail, l.count, false)
	}
}

// flush gives back what is in store. The shard must have other entries, or give
// them back next.
func (s *slab) flush() {
	if s.spares == 0 {
		return
	}
	tail := s.spare
	for range s.spares - 1 {
		tail = s.next(tail)
	}
	s.give(s.spare, tail, s.spares, false)
	s.spare, s.spares = 0, 0
}

// find returns the entry of l that a receipt names, or 0 if it is gone, or was
// merged with later charges. Serial numbers ascend from the oldest entry to the
// newest, and what is given back is mostly among the newest.
func (s *slab) find(l log, r ratelimit.Receipt) uint32 {
	for e := l.tail; e != 0 && s.serial(e) >= r.Entry; e = s.previous(e) {
		if s.serial(e) == r.Entry && s.time(e) <= r.At {
			return e
		}
	}
	return 0
}
