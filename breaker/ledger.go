package breaker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// A ledger keeps by bucket what the fallback granted, to be charged to the primary
// once that is back. It is bounded, and its entries are charged at most once: they
// leave it first.
type ledger struct {
	room    int
	dropped atomic.Uint64 // units that found no room, or could not be charged
	size    atomic.Int64

	mu     sync.Mutex
	shards map[string]map[entry]int64 // units
}

// An entry is a bucket.
type entry struct {
	limit *ratelimit.Limit
	key   string
}

// add notes units that were granted, or below zero given back, of a bucket.
func (l *ledger) add(shard string, c *ratelimit.Charge, units int64) {
	if units == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shards == nil {
		l.shards = map[string]map[entry]int64{}
	}
	entries := l.shards[shard]
	if entries == nil {
		entries = map[entry]int64{}
		l.shards[shard] = entries
	}
	if have, ok := entries[entry{c.Limit, string(c.Key)}]; ok {
		entries[entry{c.Limit, string(c.Key)}] = max(have+units, 0)
		return
	}
	switch {
	case units < 0: // what was granted has been charged already
	case l.size.Load() >= int64(l.room):
		l.dropped.Add(uint64(units))
	default:
		entries[entry{c.Limit, string(c.Key)}] = units
		l.size.Add(1)
	}
}

// take removes what is kept for a shard.
func (l *ledger) take(shard string) map[entry]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.shards[shard]
	delete(l.shards, shard)
	l.size.Add(-int64(len(entries)))
	return entries
}

// atOnce is how many entries are charged in one call of the primary.
const atOnce = 100

// settle charges to the primary what the fallback granted of a shard while that
// was away, behind the calls. What fails is dropped: to try again might charge
// twice.
func (b *Backend) settle(shard string) {
	entries := b.ledger.take(shard)
	if len(entries) == 0 {
		return
	}
	b.behind.Go(func() {
		for keys := range slices.Chunk(slices.Collect(maps.Keys(entries)), atOnce) {
			var deltas []ratelimit.Delta
			total := int64(0)
			for _, e := range keys {
				if units := entries[e]; units > 0 {
					deltas = append(deltas, ratelimit.Delta{Limit: e.limit, Key: []byte(e.key), Cost: units, Units: units})
					total += units
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*b.budget)
			if err := b.primary.Adjust(ctx, deltas); err != nil {
				b.ledger.dropped.Add(uint64(total))
			} else {
				b.counts.settled.Add(uint64(total))
			}
			cancel()
		}
	})
}
