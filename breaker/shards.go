package breaker

import (
	"sync"
	"time"

	"github.com/protolimit/ratelimit"
)

// guards are the breakers by shard, made when a shard is first met and dropped
// when it has not been met for a while.
type guards struct {
	make  func(shard string) *guard
	start time.Time // of the backend

	mu      sync.RWMutex
	byShard map[string]*guard
}

// forgetAfter is how long a shard is not met before its breaker is dropped.
const forgetAfter = time.Minute

// of returns the breaker of a shard that is met at some time.
func (g *guards) of(shard string, at time.Time) *guard {
	now := int64(at.Sub(g.start))
	g.mu.RLock()
	known := g.byShard[shard]
	g.mu.RUnlock()
	if known == nil {
		known = g.add(shard, now)
	}
	if now-known.used.Load() > int64(time.Second) {
		known.used.Store(now)
	}
	return known
}

func (g *guards) add(shard string, now int64) *guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.byShard[shard]; known != nil {
		return known
	}
	if g.byShard == nil {
		g.byShard = map[string]*guard{}
	}
	for name, old := range g.byShard {
		if now-old.used.Load() > int64(forgetAfter) {
			delete(g.byShard, name)
		}
	}
	added := g.make(shard)
	added.used.Store(now)
	g.byShard[shard] = added
	return added
}

// all returns the breakers there are, without those of shards that are met no more
// while others are.
func (g *guards) all() []*guard {
	now := int64(time.Since(g.start))
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all, met []*guard
	for _, known := range g.byShard {
		all = append(all, known)
		if now-known.used.Load() <= int64(forgetAfter) {
			met = append(met, known)
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

// guardOf returns the breaker of a call whose charges are all in one shard.
func (b *Backend) guardOf(charges []ratelimit.Charge, at time.Time) *guard {
	if len(charges) == 0 {
		return b.guards.of("", at)
	}
	return b.guards.of(b.shardOf(&charges[0]), at)
}

// shardsOf returns the distinct shards of charges, or nil if there is only one.
func (b *Backend) shardsOf(charges []ratelimit.Charge) []string {
	if len(charges) < 2 {
		return nil
	}
	first := b.sharder.Shard(&charges[0])
	var shards []string
	for i := range charges[1:] {
		if shard := b.sharder.Shard(&charges[1+i]); shard != first || shards != nil {
			shards = append(shards, shard)
		}
	}
	if shards == nil {
		return nil
	}
	distinct := []string{first}
	for _, shard := range shards {
		known := false
		for _, d := range distinct {
			known = known || d == shard
		}
		if !known {
			distinct = append(distinct, shard)
		}
	}
	return distinct
}
