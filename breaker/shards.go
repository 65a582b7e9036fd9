package breaker

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// guards are the breakers by shard, made when a shard is first met and dropped
// when it has not been met for a while.
type guards struct {
	make  func(shard string) *guard
	start time.Time // of the backend

	known atomic.Pointer[knownGuards]
	mu    sync.Mutex // of whoever changes known
}

// knownGuards are immutable: each call reads them, and they hardly ever change.
type knownGuards struct {
	only    *guard // if there is only one
	byShard map[string]*guard
}

// forgetAfter is how long a shard is not met before its breaker is dropped.
const forgetAfter = time.Minute

// isForgotten tells whether a shard has not been met for so long that it may be
// gone. One that is away, which an operator may be looking for, stays for longer.
func (g *guard) isForgotten(now int64) bool {
	after := forgetAfter
	if g.isAway.Load() {
		after *= 10
	}
	return now-g.used.Load() > int64(after)
}

// of returns the breaker of a shard that is met at some time.
func (g *guards) of(shard string, at time.Time) *guard {
	now := int64(at.Sub(g.start))
	found := g.find(shard)
	if found == nil {
		found = g.add(shard, now)
	}
	if now-found.used.Load() > int64(time.Second) {
		found.used.Store(now)
	}
	return found
}

func (g *guards) find(shard string) *guard {
	known := g.known.Load()
	if known == nil {
		return nil
	}
	if known.only != nil && known.only.shard == shard {
		return known.only
	}
	return known.byShard[shard]
}

func (g *guards) add(shard string, now int64) *guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.find(shard); found != nil {
		return found
	}
	next := &knownGuards{byShard: map[string]*guard{}}
	if known := g.known.Load(); known != nil {
		maps.Copy(next.byShard, known.byShard)
	}
	for name, old := range next.byShard {
		if old.isForgotten(now) {
			delete(next.byShard, name)
		}
	}
	added := g.make(shard)
	added.used.Store(now)
	if len(next.byShard) == 0 {
		next.only = added
	}
	next.byShard[shard] = added
	g.known.Store(next)
	return added
}

// all returns the breakers there are, without those of shards that are met no more
// while others are.
func (g *guards) all() []*guard {
	known := g.known.Load()
	if known == nil {
		return nil
	}
	now := int64(time.Since(g.start))
	var all, met []*guard
	for _, one := range known.byShard {
		all = append(all, one)
		if !one.isForgotten(now) {
			met = append(met, one)
		}
	}
	if len(met) > 0 {
		return met
	}
	return all
}

func (b *Backend) shardOf(c *ratelimit.Charge) string {
	if b.sharder == nil {
		return ""
	}
	return b.sharder.Shard(c)
}

// shardOfAll returns the shard that all charges of a call are in, and false if
// there are several.
func (b *Backend) shardOfAll(charges []ratelimit.Charge) (string, bool) {
	if b.sharder == nil || len(charges) == 0 {
		return "", true
	}
	shard := b.sharder.Shard(&charges[0])
	for i := range charges[1:] {
		if b.sharder.Shard(&charges[1+i]) != shard {
			return "", false
		}
	}
	return shard, true
}
