package breaker

import (
	"context"
	"errors"
	"slices"

	"github.com/protolimit/ratelimit"
)

// Adjust implements [ratelimit.Backend]: by the backend that granted the charge,
// as its receipt tells. While that is the primary and it is away, nothing is
// adjusted; neither is the primary for a charge of the fallback that it has been
// told of since. It waits for the primary no longer than Take does.
func (b *Backend) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	if b.closed.Load() {
		return errClosed
	}
	instances := b.Instances()
	var shared []ratelimit.Delta
	var errs []error
	away := false
	for i := range deltas {
		d := deltas[i]
		c := ratelimit.Charge{Limit: d.Limit, Key: d.Key}
		shard := b.shardOf(&c)
		switch {
		case d.Receipt.Origin == localOrigin:
			if err := b.adjustLocal(ctx, &d, b.shares.of(d.Limit, instances)); err != nil {
				errs = append(errs, err)
			}
		case b.guards.of(shard, b.now()).isAway.Load(): // also while it is probed
			away = true
		default:
			shared = append(shared, d)
		}
	}
	if away {
		errs = append(errs, errAway)
	}
	if len(shared) > 0 {
		errs = append(errs, b.adjustPrimary(ctx, shared))
	}
	return errors.Join(errs...)
}

// adjustLocal has the fallback adjust, under the share of the limit. What it gives
// back is owed no more to the primary, but only that: of a charge that has drained
// since it gives nothing back, and what is owed then is what others were granted.
func (b *Backend) adjustLocal(ctx context.Context, d *ratelimit.Delta, local *ratelimit.Limit) error {
	c := ratelimit.Charge{Limit: d.Limit, Key: d.Key}
	here := [1]ratelimit.Delta{*d}
	here[0].Limit = local
	if d.Units >= 0 || b.ledger.owed(&c) == 0 {
		b.ledger.change(&c, max(d.Units, 0))
		return b.fallback.Adjust(ctx, here[:])
	}
	b.ledger.refunds.Lock() // or one would see what another gave back
	defer b.ledger.refunds.Unlock()
	b.ledger.locals.begin()
	defer b.ledger.locals.end()
	before, err := b.usedOf(ctx, local, d.Key)
	if err != nil {
		return err
	}
	if err := b.fallback.Adjust(ctx, here[:]); err != nil {
		return err
	}
	after, err := b.usedOf(ctx, local, d.Key)
	if err != nil {
		return err
	}
	b.ledger.change(&c, max(min(after-before, 0), d.Units))
	return nil
}

// adjustPrimary has the primary adjust, within the budget.
func (b *Backend) adjustPrimary(ctx context.Context, deltas []ratelimit.Delta) error {
	if b.bounded {
		within, cancel := context.WithTimeout(ctx, b.budget)
		defer cancel()
		return inTime(ctx, within, b.adjustWithin(within, deltas))
	}
	for i := range deltas { // which may be adjusted after the caller is gone
		deltas[i].Key = slices.Clone(deltas[i].Key)
	}
	_, err := b.beside(ctx, func(within context.Context) error { return b.primary.Adjust(within, deltas) })
	return err
}

// adjustWithin has the primary adjust.
func (b *Backend) adjustWithin(ctx context.Context, deltas []ratelimit.Delta) (err error) {
	defer recovered(&err)
	return b.primary.Adjust(ctx, deltas)
}
