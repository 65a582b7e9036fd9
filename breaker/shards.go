package breaker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/protolimit/ratelimit"
)

// guards are the breakers by shard, made when a shard is first met and dropped
// when it has not been met for a while.
type guards struct {
	make func(shard string) *guard

	mu      sync.RWMutex
	byShard map[string]*guard
}

// forgetAfter is how long a shard is not met before its breaker is dropped.
const forgetAfter = 10 * time.Minute

var processStart = time.Now()

func (g *guards) of(shard string) *guard {
	now := int64(time.Since(processStart))
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

// all returns the breakers there are.
func (g *guards) all() []*guard {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []*guard
	for _, known := range g.byShard {
		all = append(all, known)
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
func (b *Backend) guardOf(charges []ratelimit.Charge) *guard {
	if len(charges) == 0 {
		return b.guards.of("")
	}
	return b.guards.of(b.shardOf(&charges[0]))
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

// takeSharded decides a call whose charges are in several shards. Those in shards
// whose breaker is open are decided by the fallback, after the primary granted the
// others; what one part charged is given back if the other refuses.
func (b *Backend) takeSharded(ctx context.Context, shards []string, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	var live []*guard
	away := map[string]*guard{}
	for _, shard := range shards {
		if g := b.guards.of(shard); g.isOpen() {
			away[shard] = g
		} else {
			live = append(live, g)
		}
	}
	if len(away) == 0 {
		return b.takeLive(ctx, live, charges, verdicts)
	}
	var alive, gone part
	for i := range charges {
		shard := b.sharder.Shard(&charges[i])
		if g := away[shard]; g == nil {
			alive.add(i, charges[i])
		} else if err := b.denies(g, charges[i:i+1], errAway); err != nil {
			return err
		} else {
			gone.add(i, charges[i])
		}
	}
	granted := true
	if len(alive.charges) > 0 {
		if err := b.takeLive(ctx, live, alive.charges, alive.answers()); err != nil {
			return err
		}
		granted = alive.copy(verdicts)
	}
	if !granted { // the rest is only told
		for i := range gone.charges {
			gone.charges[i].Cost = 0
		}
	}
	if err := b.decideLocally(ctx, gone.charges, gone.answers()); err != nil {
		return err
	}
	if gone.copy(verdicts) || !granted {
		return nil
	}
	return b.giveBack(ctx, &alive, verdicts)
}

// copy puts the part's verdicts in their places, and returns whether all allow.
func (p *part) copy(verdicts []ratelimit.Verdict) bool {
	granted := true
	for i, place := range p.places {
		verdicts[place] = p.verdicts[i]
		granted = granted && p.verdicts[i].Allowed
	}
	return granted
}

// giveBack gives back what the primary charged for a call that the fallback
// refused.
func (b *Backend) giveBack(ctx context.Context, p *part, verdicts []ratelimit.Verdict) error {
	var deltas []ratelimit.Delta
	for i, c := range p.charges {
		if r := p.verdicts[i].Receipt; r.At != 0 && c.Cost > 0 && r.Origin == 0 {
			deltas = append(deltas, ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Units: -c.Cost, Receipt: r})
			v := &verdicts[p.places[i]]
			v.Receipt, v.Remaining = ratelimit.Receipt{}, v.Remaining+c.Cost
		}
	}
	// What cannot be given back drains.
	_ = b.primary.Adjust(context.WithoutCancel(ctx), deltas)
	return nil
}

// takeLive asks the primary about charges in shards whose breakers let it, and
// tells each breaker how its own shard did.
func (b *Backend) takeLive(ctx context.Context, live []*guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	err := b.runAll(ctx, live, charges, verdicts)
	switch {
	case err == nil:
		b.keepWarm(charges, verdicts)
		return nil
	case isCallers(ctx, err):
		return err
	}
	for _, g := range live {
		if err := b.denies(g, charges, err); err != nil {
			return err
		}
	}
	return b.decideLocally(ctx, charges, verdicts)
}

// runAll runs a call under several breakers, one inside the other.
func (b *Backend) runAll(ctx context.Context, live []*guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if len(live) == 1 {
		return live[0].run(ctx, b, charges, verdicts)
	}
	var err error
	_, refused := live[0].breaker.Execute(func() (struct{}, error) {
		start := time.Now()
		err = b.runAll(ctx, live[1:], charges, verdicts)
		var shard *ratelimit.ShardError
		if errors.As(err, &shard) && shard.Shard != live[0].shard || errors.Is(err, errAway) {
			return struct{}{}, errNeutral
		}
		return struct{}{}, live[0].judge(ctx, err, time.Since(start) > b.slow)
	})
	if live[0].has.Load() {
		live[0].tell(b)
	}
	if err == nil && refused != nil && !errors.Is(refused, errSlow) {
		return errAway
	}
	return err
}
