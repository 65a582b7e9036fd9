package memory

import (
	"math"
	"sync/atomic"
)

const (
	// candidates is how many keys of each kind are compared to find one that
	// is forgotten.
	candidates = 8
	// enough is how many slots are looked at for candidates once there is one.
	enough = 64
	// searchSlots is how many slots one search looks at, at most:
	// a small part of a millisecond, during which a shard is locked.
	searchSlots = 1 << 15
)

// A pool is a number of keys that shards share.
type pool struct {
	watch
	left atomic.Int64
}

func (p *pool) take() bool {
	// An empty pool is only read, so that its cache line stays with everybody.
	if p.left.Load() <= 0 {
		return false
	}
	if p.left.Add(-1) < 0 {
		p.left.Add(1)
		return false
	}
	return true
}

func (p *pool) give(n int) {
	if n > 0 {
		p.left.Add(int64(n))
	}
}

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
		if s.reclaim(&s.keys.watch, now) {
			return
		}
		// No key has moved, for none was forgotten.
		s.evictions++
	}
	s.recount(func() { victim.remove(where) })
}

// reclaim forgets something of what w watches that counts no more, here or in
// another shard, and tells whether it found any.
//
// Where charges made keys count for longer than was noted, it looks in vain, but
// only once: each look notes anew what it sees. It begins where the last one
// ended, so that several in a row look at everything.
func (s *shard) reclaim(w *watch, now int64) bool {
	left := searchSlots
	if s.collect(w, now, &left) {
		return true
	}
	return w.look(now, func(shard int) (found, enough bool) {
		found = collectFrom(&s.peers[shard], w, now, &left)
		return found, left <= 0
	})
}

// collectFrom has peer collect, unless somebody holds it, maybe the caller.
func collectFrom(peer *shard, w *watch, now int64, left *int) bool {
	// Whoever waits for a lock here could wait for himself.
	if !peer.mu.TryLock() {
		return false
	}
	defer peer.mu.Unlock()
	// What is forgotten as of now may not be asked for as of an earlier time.
	peer.last = max(peer.last, now)
	found := peer.collect(w, now, left)
	if found && w.first == logKind {
		peer.slab.flush()
	}
	return found
}

// nearestIdle returns the one of the next candidates that will be idle first,
// and when: the largest int64 if t has no key besides that of tag.
func (t *table) nearestIdle(tag uint64) (pos int, idleAt int64) {
	idleAt = math.MaxInt64
	left := min(candidates, t.used)
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
