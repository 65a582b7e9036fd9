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
	var local, shared []ratelimit.Delta
	away := false
	for i := range deltas {
		d := deltas[i]
		c := ratelimit.Charge{Limit: d.Limit, Key: d.Key}
		shard := b.shardOf(&c)
		switch {
		case d.Receipt.Origin == localOrigin:
			d.Limit = b.shares.of(d.Limit, instances)
			local = append(local, d)
			b.ledger.change(&c, d.Units)
		case b.guards.of(shard, b.now()).isAway.Load(): // also while it is probed
			away = true
		default:
			shared = append(shared, d)
		}
	}
	var errs []error
	if away {
		errs = append(errs, errAway)
	}
	if len(local) > 0 {
		errs = append(errs, b.fallback.Adjust(ctx, local))
	}
	if len(shared) > 0 {
		errs = append(errs, b.adjustPrimary(ctx, shared))
	}
	return errors.Join(errs...)
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
