package breaker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// ask has the primary decide, within the budget.
func (b *Backend) ask(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if b.bounded {
		return b.primary.Take(ctx, charges, verdicts)
	}
	return b.askBeside(ctx, charges, verdicts)
}

// askBeside asks a primary that may take any time in a goroutine of its own, with
// copies of what the caller may use again.
func (b *Backend) askBeside(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	asked := slices.Clone(charges)
	for i := range asked {
		asked[i].Key = slices.Clone(asked[i].Key)
	}
	type answer struct {
		verdicts []ratelimit.Verdict
		err      error
	}
	answers := make(chan answer, 1)
	within, cancel := context.WithTimeout(ctx, b.budget)
	go func() {
		defer cancel()
		a := answer{verdicts: make([]ratelimit.Verdict, len(asked))}
		a.err = b.primary.Take(within, asked, a.verdicts)
		answers <- a
	}()
	timer := time.NewTimer(b.budget)
	defer timer.Stop()
	select {
	case a := <-answers:
		copy(verdicts, a.verdicts)
		if a.err != nil && within.Err() != nil && ctx.Err() == nil {
			return late(a.err)
		}
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("breaker: %w", context.Cause(ctx))
	case <-timer.C:
		return late(context.DeadlineExceeded)
	}
}

func late(err error) error {
	return fmt.Errorf("%w: breaker: no answer within the time budget: %w", ratelimit.ErrUnavailable, err)
}
