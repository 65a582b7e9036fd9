package memory

import (
	"sync"

	"github.com/protolimit/ratelimit"
)

// A shard is the part of a backend that one mutex guards. Its methods want mu to
// be held, but for those that say otherwise.
type shard struct {
	mu     sync.Mutex
	number int
	last   int64 // the time of the last decision; see Backend.instant
	tables [kinds]table
	slab   slab
	keys   *pool   // keys that the backend may still add, less each shard's first
	peers  []shard // all shards of the backend

	evictions uint64 // keys that were forgotten before they were idle

	_ [64]byte // the next shard's mutex is on a cache line of its own
}

func (s *shard) init(number int, skip uint8, peers []shard, keys *pool, entries *arena) {
	for k := range s.tables {
		s.tables[k].init(kind(k), skip, s)
	}
	s.number = number
	s.slab = slab{arena: entries}
	s.keys, s.peers = keys, peers
}

// An ask is what one bucket is asked for.
type ask struct {
	limit *ratelimit.Limit
	tag   uint64
	sum   int64 // units, 0 or more
}

// used returns how many slots hold a key, idle or not.
func (s *shard) used() int {
	used := 0
	for k := range s.tables {
		used += s.tables[k].used
	}
	return used
}

// place returns where the state of tag is in t, making a slot of zeros for it if
// there is none. Slots found before may have moved.
func (s *shard) place(t *table, tag uint64, now int64) int {
	for {
		pos, found := t.find(tag)
		if found {
			return pos
		}
		gap, what := t.gapFrom(pos, now)
		switch {
		case what == idleGap:
			t.release(gap)
			t.open(pos, gap, tag)
			return pos
		case t.used >= t.full:
			s.recount(func() { t.tidy(now) })
		case what == noGap:
			s.recount(func() { t.resize(t.slots()+firstSlots, now) })
		case s.used() > 0 && !s.keys.take():
			s.evict(now)
		default:
			t.open(pos, gap, tag)
			t.used++
			return pos
		}
	}
}

// recount gives back the keys that f removes.
func (s *shard) recount(f func()) {
	before := s.used()
	f()
	s.keys.give(before - max(s.used(), 1))
}
