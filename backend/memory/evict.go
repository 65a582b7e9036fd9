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
	// A shard looks for all of its idle keys once for each sweepEvery µs, or
	// each sweepShare of its keys that it forgot.
	sweepEvery = 1 << 20
	sweepShare = 4
	// sweepPeers is how many other shards are swept in one search, at most.
	sweepPeers = 8
)

// A pool is a number of things that shards share.
type pool struct {
	left   atomic.Int64
	cursor atomic.Uint32 // the shard where the next search for idle ones begins
	barren atomic.Int64  // when a search last found nothing anywhere, in µs
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
		if s.reclaim(s.keys, now) {
			return
		}
		s.evictions++
	}
	s.recount(func() { victim.remove(where) })
}

// reclaim looks for idle keys to forget, here and then in other shards, which
// p is the pool of, and tells whether it found one. If not, nothing has moved.
func (s *shard) reclaim(p *pool, now int64) bool {
	if s.sweepIsDue(now) && s.sweep(now) {
		return true
	}
	if barren := p.barren.Load(); now >= barren && now-barren < sweepEvery {
		return false
	}
	swept := 0
	for range s.peers {
		peer := &s.peers[p.cursor.Add(1)%uint32(len(s.peers))]
		// Whoever waits for a lock here could wait for himself.
		if peer == s || !peer.mu.TryLock() {
			continue
		}
		due := peer.sweepIsDue(now)
		found := due && peer.sweep(now)
		peer.mu.Unlock()
		if found {
			return true
		}
		if due {
			swept++
		}
		if swept == sweepPeers {
			return false
		}
	}
	p.barren.Store(now)
	return false
}

func (s *shard) sweepIsDue(now int64) bool {
	forgot := s.evictions - s.sweptAfter
	return now < s.swept || now-s.swept >= sweepEvery || forgot > uint64(s.used())/sweepShare
}

// sweep forgets all idle keys, and tells whether there was one.
func (s *shard) sweep(now int64) bool {
	s.swept, s.sweptAfter = now, s.evictions
	before := s.used()
	s.recount(func() {
		for k := range s.tables {
			if t := &s.tables[k]; t.live(now) < t.used {
				t.sweep(now)
			}
		}
	})
	return s.used() < before
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
