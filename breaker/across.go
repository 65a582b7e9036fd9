package breaker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// takeSharded decides a call whose charges are in several shards.
func (b *Backend) takeSharded(ctx context.Context, shards []string, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	var live []*guard
	away := map[string]*guard{}
	for _, shard := range shards {
		if g := b.guards.of(shard, time.Now()); g.isOpen() {
			away[shard] = g
		} else {
			live = append(live, g)
		}
	}
	for {
		refused, err := b.takeApart(ctx, live, away, charges, verdicts)
		if refused == nil {
			return err
		}
		// Its probes are under way, and nothing was sent.
		away[refused.shard] = refused
		live = slices.DeleteFunc(live, func(g *guard) bool { return g == refused })
	}
}

// takeApart has the fallback decide the charges in shards that are away, after the
// primary granted the others; what one part charged is given back if the other
// refuses. If the breaker of a live shard lets nothing through it is returned, and
// nothing is decided.
func (b *Backend) takeApart(ctx context.Context, live []*guard, away map[string]*guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) (refused *guard, err error) {
	if len(away) == 0 {
		return b.takeLive(ctx, live, charges, verdicts)
	}
	start := time.Now()
	var alive, gone part
	for i := range charges {
		shard := b.sharder.Shard(&charges[i])
		if g := away[shard]; g == nil {
			alive.add(i, charges[i])
		} else if err := b.denies(g, charges[i:i+1], errAway); err != nil {
			return nil, err
		} else {
			gone.add(i, charges[i])
		}
	}
	granted := true
	if len(alive.charges) > 0 {
		if refused, err := b.takeLive(ctx, live, alive.charges, alive.answers()); refused != nil || err != nil {
			return refused, err
		}
		granted = alive.copy(verdicts)
	}
	if !granted { // the rest is only told
		for i := range gone.charges {
			gone.charges[i].Cost = 0
		}
	}
	if err := b.decideLocally(ctx, gone.charges, gone.answers(), true); err != nil {
		b.giveBack(start, &alive, verdicts)
		return nil, err
	}
	if !gone.copy(verdicts) && granted {
		b.giveBack(start, &alive, verdicts)
	}
	return nil, nil
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
// refused. It waits for that as long as the call has time; what cannot be given
// back drains.
func (b *Backend) giveBack(start time.Time, p *part, verdicts []ratelimit.Verdict) {
	var deltas []ratelimit.Delta
	for i, c := range p.charges {
		if r := p.verdicts[i].Receipt; r.At != 0 && c.Cost > 0 && r.Origin == 0 {
			deltas = append(deltas, ratelimit.Delta{Limit: c.Limit, Key: slices.Clone(c.Key), Cost: c.Cost, Units: -c.Cost, Receipt: r})
			v := &verdicts[p.places[i]]
			v.Receipt, v.Remaining = ratelimit.Receipt{}, v.Remaining+c.Cost
		}
	}
	if len(deltas) == 0 {
		return
	}
	done := make(chan struct{})
	started := b.behind.start(func(ctx context.Context) {
		defer close(done)
		within, cancel := context.WithTimeout(ctx, 10*b.budget)
		defer cancel()
		_ = b.primary.Adjust(within, deltas)
	})
	if !started {
		return
	}
	timer := time.NewTimer(b.budget - time.Since(start))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// takeLive asks the primary about charges in shards whose breakers let it. A
// breaker that does not is returned, and nothing is decided.
func (b *Backend) takeLive(ctx context.Context, live []*guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) (refused *guard, err error) {
	refused, err = b.runAll(ctx, live, charges, verdicts)
	switch {
	case refused != nil:
		return refused, nil
	case err == nil:
		b.learn(charges, verdicts, live...)
		return nil, nil
	case isCallers(ctx, err):
		return nil, err
	}
	b.counts.met(err)
	for _, g := range live {
		if err := b.denies(g, charges, err); err != nil {
			return nil, err
		}
	}
	return nil, b.decideLocally(ctx, charges, verdicts, isUnsent(err))
}

// runAll runs a call under several breakers, one inside the other, and tells each
// how its own shard did.
func (b *Backend) runAll(ctx context.Context, live []*guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) (refused *guard, err error) {
	g := live[0]
	inner := func() error { return b.ask(ctx, charges, verdicts) }
	if len(live) > 1 {
		inner = func() (err error) {
			refused, err = b.runAll(ctx, live[1:], charges, verdicts)
			return err
		}
	}
	asked, err := g.runWith(ctx, b, inner, func(err error) bool {
		shard, ok := errors.AsType[*ratelimit.ShardError](err)
		return refused != nil || ok && shard.Shard != g.shard
	})
	if !asked {
		refused = g
	}
	return refused, err
}
