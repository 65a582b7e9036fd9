package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

// localOrigin marks the receipts of the fallback.
const localOrigin = 1

// A part is some charges of a call, with the places of their verdicts in it.
type part struct {
	charges  []ratelimit.Charge
	verdicts []ratelimit.Verdict
	places   []int
}

func (p *part) reset() {
	clear(p.charges)
	p.charges, p.places = p.charges[:0], p.places[:0]
}

func (p *part) add(place int, c ratelimit.Charge) {
	p.charges, p.places = append(p.charges, c), append(p.places, place)
}

// answers returns room for the verdicts of the part.
func (p *part) answers() []ratelimit.Verdict {
	if cap(p.verdicts) < len(p.charges) {
		p.verdicts = make([]ratelimit.Verdict, len(p.charges))
	}
	p.verdicts = p.verdicts[:len(p.charges)]
	return p.verdicts
}

// degrade decides a call that the primary did not, as its rules say. An error
// wraps cause.
func (b *Backend) degrade(ctx context.Context, g *guard, charges []ratelimit.Charge, verdicts []ratelimit.Verdict, cause error) error {
	b.counts.met(cause)
	if err := b.denies(g, charges, cause); err != nil {
		return err
	}
	unsent := isUnsent(cause)
	return b.decideLocally(ctx, charges, verdicts, func(int) bool { return unsent })
}

// denies returns an error if a rule says Deny, or all do since the outage is too
// long.
func (b *Backend) denies(g *guard, charges []ratelimit.Charge, cause error) error {
	tooLong := false
	if since, away := g.awaySince(); away && b.longest > 0 {
		tooLong = time.Since(since) > b.longest
	}
	for i := range charges {
		if l := charges[i].Limit; tooLong || l.OnUnavailable() == ratelimit.Deny {
			b.counts.denied.Add(1)
			return fmt.Errorf("breaker: denied for %v: %w", l, unavailable(cause))
		}
	}
	return nil
}

// unavailable returns a failure of the primary as what callers know: a primary of
// somebody else's may fail with any error.
func unavailable(cause error) error {
	if errors.Is(cause, ratelimit.ErrUnavailable) { // a bug is that, too
		return cause
	}
	return fmt.Errorf("%w: %w", ratelimit.ErrUnavailable, cause)
}

// decideLocally has the fallback decide the rules that say Local, all or nothing,
// and lets those that say Allow pass. What it grants goes to the ledger if the
// primary cannot have charged it already: if the charge is unsent.
func (b *Backend) decideLocally(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict, unsent func(i int) bool) error {
	p := b.scratch.Get().(*part)
	defer b.scratch.Put(p)
	p.reset()
	instances := b.Instances()
	for i := range charges {
		c := charges[i]
		if c.Limit.OnUnavailable() == ratelimit.Allow {
			verdicts[i] = ratelimit.Verdict{Allowed: true, Remaining: max(c.Limit.Most()-c.Cost, 0)}
			continue
		}
		c.Limit = b.shares.of(c.Limit, instances)
		p.add(i, c)
	}
	answers := p.answers()
	turn := b.ledger.locals.begin()
	defer b.ledger.locals.end()
	if err := b.fallback.Take(ctx, p.charges, answers); err != nil {
		return err
	}
	b.counts.local.Add(1)
	granted := true
	for i := range answers {
		granted = granted && answers[i].Allowed
	}
	for i, place := range p.places {
		if answers[i].Receipt.At != 0 {
			answers[i].Receipt.Origin = localOrigin
		}
		verdicts[place] = answers[i]
		if granted && unsent(place) {
			b.ledger.add(&charges[place], charges[place].Cost, usedOf(p.charges[i].Limit, &answers[i]), turn)
		}
	}
	return nil
}

// learn takes in verdicts of a primary that is well: the fallback's buckets follow
// them, and what the primary does not know yet is charged to it. Verdicts of probes
// are left out, so that a bucket keeps what the fallback counted until that has
// been settled.
func (b *Backend) learn(charges []ratelimit.Charge, verdicts []ratelimit.Verdict, guards ...*guard) {
	for _, g := range guards {
		if g.isAway.Load() {
			return
		}
	}
	b.keepWarm(charges, verdicts)
	if b.ledger.size.Load() == 0 && b.doubts.size.Load() == 0 {
		return
	}
	for _, g := range guards {
		if g.settlesAgain(b.open) {
			b.settle(g.shard)
		}
	}
}

// keepWarm moves the fallback's buckets to the fraction that verdicts of the
// primary show as used, and to what it does not or may not know on top.
func (b *Backend) keepWarm(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	if b.mirror != nil {
		b.ledger.locals.apart(func() { b.warm(charges, verdicts) })
	}
}

func (b *Backend) warm(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	instances := b.Instances()
	for i := range charges {
		c := &charges[i]
		most := c.Limit.Most()
		if c.Limit.OnUnavailable() != ratelimit.Local || most == 0 {
			continue
		}
		local := b.shares.of(c.Limit, instances)
		used := most - verdicts[i].Remaining
		if most != local.Most() {
			used = portion(used, local.Most(), most)
		}
		if b.ledger.size.Load() > 0 {
			used += b.owed(c, local)
		}
		if b.doubts.size.Load() > 0 {
			used += b.doubted(c, local)
		}
		b.mirror.Mirror(local, c.Key, used)
	}
}
