package breaker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// ask has the primary decide, within the budget.
func (b *Backend) ask(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) (err error) {
	if !b.bounded {
		return b.askBeside(ctx, charges, verdicts)
	}
	defer recovered(&err)
	return b.primary.Take(ctx, charges, verdicts)
}

// askBeside asks a primary that may take any time in a goroutine of its own, with
// copies of what the caller may use again.
func (b *Backend) askBeside(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	asked := slices.Clone(charges)
	for i := range asked {
		asked[i].Key = slices.Clone(asked[i].Key)
	}
	answers := make([]ratelimit.Verdict, len(asked))
	answered, err := b.beside(ctx, func(within context.Context) error {
		return b.primary.Take(within, asked, answers)
	})
	if answered {
		copy(verdicts, answers)
	}
	return err
}

// beside calls a primary in a goroutine of its own, for as long as the budget and
// the caller let it, and tells whether it has returned.
func (b *Backend) beside(ctx context.Context, call func(context.Context) error) (answered bool, err error) {
	ended := make(chan error, 1)
	within, cancel := context.WithTimeout(ctx, b.budget)
	go func() {
		defer cancel()
		ended <- guarded(within, call)
	}()
	timer := time.NewTimer(b.budget)
	defer timer.Stop()
	select {
	case err := <-ended:
		return true, inTime(ctx, within, err)
	case <-ctx.Done():
		return false, fmt.Errorf("breaker: %w", context.Cause(ctx))
	case <-timer.C:
		return false, late(context.DeadlineExceeded)
	}
}

// inTime returns the error of a call that had only a part of ctx's time, as being
// late if that part is over.
func inTime(ctx, within context.Context, err error) error {
	if err != nil && errors.Is(within.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return late(err)
	}
	return err
}

func late(err error) error {
	return fmt.Errorf("%w: breaker: no answer within the time budget: %w", ratelimit.ErrUnavailable, err)
}

// errPanic is wrapped by the error of a call in which the primary panicked: a bug,
// which is told, and a failure, since each further call costs as much.
var errPanic = errors.New("the primary panicked")

// recovered, deferred, makes an error of a panic, so that the call is decided all
// the same.
func recovered(err *error) { //nolint:gocritic // it sets the result of who defers it
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: breaker: %w: %v\n%s", ratelimit.ErrBackendBug, errPanic, p, debug.Stack())
	}
}

// guarded returns what call does, as an error if it panics.
func guarded(ctx context.Context, call func(context.Context) error) (err error) {
	defer recovered(&err)
	return call(ctx)
}
