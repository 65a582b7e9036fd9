package memory

import "github.com/protolimit/ratelimit"

// A slab keeps the entries of a shard's logs, in blocks without pointers. An
// entry is three words in the list of its log, and is named by its index, which
// is never 0.
//
//	time, µs since 1970
//	next 32 | previous 32
//	cost, which is 0 exactly if the entry is free
//	serial 32 | owner 32
//
// The serial number and the owner, a piece of the tag, tell whether a receipt is
// about this entry or about one that had its place before.
//
// The shard's mutex guards it.
type slab struct {
	blocks    []*[blockEntries * entryWords]uint64
	pool      *pool
	vacant    uint32 // first free entry; the others follow by next
	untouched uint32 // entries from this one on were never used
	used      int
	serial    uint64
}

const (
	entryWords   = 4
	blockEntries = 128
)

func (s *slab) at(e uint32) *[entryWords]uint64 {
	block := s.blocks[e/blockEntries]
	return (*[entryWords]uint64)(block[e%blockEntries*entryWords:])
}

func (s *slab) time(e uint32) int64           { return int64(s.at(e)[0]) }
func (s *slab) setTime(e uint32, t int64)     { s.at(e)[0] = uint64(t) }
func (s *slab) next(e uint32) uint32          { return uint32(s.at(e)[1] >> 32) }
func (s *slab) previous(e uint32) uint32      { return uint32(s.at(e)[1]) }
func (s *slab) cost(e uint32) uint64          { return s.at(e)[2] }
func (s *slab) setCost(e uint32, cost uint64) { s.at(e)[2] = cost }

func (s *slab) link(e, next, previous uint32) {
	s.at(e)[1] = uint64(next)<<32 | uint64(previous)
}

// receipt returns the name of e that is in no other receipt.
func (s *slab) receipt(e uint32) uint64 { return uint64(e)<<32 | s.at(e)[3]>>32 }

// find returns the entry of tag's log that a receipt names, or 0 if it is gone.
func (s *slab) find(r ratelimit.Receipt, tag uint64) uint32 {
	e := uint32(r.Entry >> 32)
	if e == 0 || e >= s.untouched || s.cost(e) == 0 {
		return 0
	}
	// Serial numbers come around, but not within a microsecond.
	if s.at(e)[3] != r.Entry<<32|uint64(uint32(tag)) || s.time(e) > r.At {
		return 0
	}
	return e
}

// take returns an entry of its own for tag, in no list, or 0 if there is none
// left.
func (s *slab) take(tag uint64, at int64, cost uint64) uint32 {
	// The first one is free of charge, so that no shard depends on another.
	if s.used > 0 && !s.pool.take() {
		return 0
	}
	e := s.vacant
	switch {
	case e != 0:
		s.vacant = s.next(e)
	default:
		e = max(s.untouched, 1)
		if int(e/blockEntries) == len(s.blocks) {
			s.blocks = append(s.blocks, new([blockEntries * entryWords]uint64))
		}
		s.untouched = e + 1
	}
	s.used++
	s.serial++
	*s.at(e) = [entryWords]uint64{uint64(at), 0, cost, s.serial<<32 | uint64(uint32(tag))}
	return e
}

// free gives back the entries of l.
func (s *slab) free(l log) {
	if l.count == 0 {
		return
	}
	for e := l.head; ; e = s.next(e) {
		s.setCost(e, 0)
		if e == l.tail {
			break
		}
	}
	s.link(l.tail, s.vacant, 0)
	s.vacant = l.head
	s.drop(l.count)
}

// drop counts n entries as free, and gives back the memory with the last one.
func (s *slab) drop(n int) {
	s.pool.give(min(n, s.used-1))
	s.used -= n
	if s.used == 0 {
		s.blocks, s.vacant, s.untouched = nil, 0, 0
	}
}
