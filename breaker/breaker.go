// Package breaker keeps a service up and limited while its backend is slow or
// gone: a [ratelimit.Backend] around two others, a primary that all instances
// share and a fallback in the process.
//
//	primary, err := goredis.Open(url)
//	// ...
//	local, err := memory.New()
//	// ...
//	backend, err := breaker.New(primary, local)
//
// A call goes to the primary, and ends within the budget. If that has no verdict,
// the rules of the call say what then ([ratelimit.OnUnavailable]): one that says
// Deny fails the call, those that say Local are decided by the fallback, all or
// nothing, each at this instance's share of the limit, and those that say Allow
// pass. When calls fail or are slow too often, the breaker opens: for some time
// calls are decided so at once, until a few probes succeed.
//
// While the primary answers, each verdict moves the fallback's bucket to the
// fraction that is used of the shared one, so that a switch hands out at most each
// instance's share of what was left. What the fallback granted is charged to the
// primary when it is back, once, as far as the ledger kept it.
//
// A primary that is a [ratelimit.Sharder] has a breaker for each shard.
package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// A Backend is a [ratelimit.Backend] around a primary and a fallback. It is safe
// for concurrent use.
type Backend struct {
	config
	primary  ratelimit.Backend
	fallback ratelimit.Backend
	mirror   ratelimit.Mirror  // nil if the fallback is none
	sharder  ratelimit.Sharder // nil if the primary is none
	guards   guards
	shares   shares
	ledger   ledger
	doubts   doubts
	counts   counts
	scratch  sync.Pool // of *part
	splits   sync.Pool // of *split
	careful  careful
	marks    marks
	behind   behind
	closed   atomic.Bool
}

// New returns a Backend that decides through primary, and through fallback while
// primary cannot. It closes both when it is closed. The error names an option that
// is out of range.
func New(primary, fallback ratelimit.Backend, opts ...Option) (*Backend, error) {
	if primary == nil || fallback == nil {
		return nil, errors.New("breaker: New: a backend is nil, want a primary and a fallback")
	}
	if _, ok := primary.(*Backend); ok { // whose receipts cannot be told from those of this one
		return nil, errors.New("breaker: New: the primary is a breaker, want a backend without one")
	}
	c := defaults()
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("breaker: New: an option is nil, want one of the With functions")
		}
		if err := o.apply(&c); err != nil {
			return nil, err
		}
	}
	c.slow = cmp.Or(c.slow, c.budget)
	b := &Backend{config: c, primary: primary, fallback: fallback}
	b.mirror, _ = fallback.(ratelimit.Mirror)
	b.sharder, _ = primary.(ratelimit.Sharder)
	if bounded, ok := primary.(ratelimit.Bounded); ok && bounded.Budget() <= b.budget {
		b.bounded = true
		b.prompt = bounded.Budget() <= b.slow
	}
	if counter, ok := primary.(ratelimit.Counter); ok && b.instances == 0 {
		b.counter = counter
	}
	b.behind.open()
	b.guards.make, b.guards.start = b.newGuard, time.Now()
	b.marks.seed = maphash.MakeSeed()
	b.ledger.room, b.doubts.room = c.ledger, c.ledger
	b.scratch.New = func() any { return &part{} }
	b.splits.New = func() any { return &split{} }
	return b, nil
}

// Take implements [ratelimit.Backend].
func (b *Backend) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if b.closed.Load() {
		return errClosed
	}
	if err := checkCall(charges, verdicts); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("breaker: %w", context.Cause(ctx))
	}
	start := b.now()
	shard, one := b.shardOfAll(charges)
	if !one {
		return b.takeApart(ctx, start, charges, verdicts)
	}
	g := b.guards.of(shard, start)
	err := g.run(ctx, start, b, charges, verdicts)
	switch {
	case err == nil:
		b.learn(charges, verdicts, g)
		return nil
	case isCallers(ctx, err):
		return err
	}
	return b.degrade(ctx, g, charges, verdicts, err)
}

// now returns the time since the backend was made, as an instant. Calls want no
// more, and reading the wall clock too would cost them as much again.
func (b *Backend) now() time.Time { return b.guards.start.Add(time.Since(b.guards.start)) }

// HasFallback implements [ratelimit.FallbackReporter].
func (b *Backend) HasFallback() bool { return true }

// Instances implements [ratelimit.Counter]: how many instances share the limits,
// as given or as the primary counts them.
func (b *Backend) Instances() int {
	switch {
	case b.instances > 0:
		return b.instances
	case b.counter != nil:
		return max(b.counter.Instances(), 1)
	}
	return 1
}

// Close implements [ratelimit.Backend]. It closes both backends. What is still to
// be charged to the primary is dropped.
func (b *Backend) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.behind.close()
	return errors.Join(b.primary.Close(), b.fallback.Close())
}

var errClosed = fmt.Errorf("%w: breaker: backend is closed", ratelimit.ErrUnavailable)

// isCallers tells whether a call ended since its caller left: neither the
// primary's failure nor its success. A caller may have left since another backend
// was away, and say so.
func isCallers(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	if cause := context.Cause(ctx); errors.Is(cause, ratelimit.ErrUnavailable) {
		return errors.Is(err, cause)
	}
	return !errors.Is(err, ratelimit.ErrUnavailable)
}

var (
	_ ratelimit.Backend          = (*Backend)(nil)
	_ ratelimit.Counter          = (*Backend)(nil)
	_ ratelimit.FallbackReporter = (*Backend)(nil)
)
