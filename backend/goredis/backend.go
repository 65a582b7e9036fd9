package goredis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
)

// A Backend is a [ratelimit.Backend] in Redis. It is safe for concurrent use.
type Backend struct {
	config
	topology topology
	closed   atomic.Bool
	timers   timerPool
	refusals *refusals      // nil with a clock of a test's, under which they would differ
	behind   sync.WaitGroup // what goes on after its call has returned
}

// New returns a Backend that decides through client.
func New(client redis.UniversalClient, opts ...Option) (*Backend, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	b := &Backend{config: *c}
	if c.clock == nil {
		b.refusals = newRefusals()
	}
	switch client := client.(type) {
	case *redis.Client:
		b.topology = &single{server: newServer(client, nil, c)}
	case *redis.ClusterClient:
		b.topology = &cluster{client: client, config: c, servers: map[*redis.Client]*server{}}
	default:
		return nil, fmt.Errorf("goredis: New: client is a %T, want a *redis.Client or *redis.ClusterClient", client)
	}
	return b, nil
}

// Take implements [ratelimit.Backend].
func (b *Backend) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if err := checkCharges(charges, verdicts); err != nil {
		return err
	}
	if b.closed.Load() {
		return outage(errClosed)
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("goredis: %w", err)
	}
	var s signature
	if b.refusals != nil {
		s = b.refusals.sign(charges)
		if b.refusals.answer(s, charges, verdicts) {
			return nil
		}
	}
	if err := b.ask(ctx, charges, verdicts); err != nil {
		return err
	}
	if b.refusals != nil {
		b.refusals.remember(s, charges, verdicts)
	}
	return nil
}

// ask has Redis decide charges.
func (b *Backend) ask(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	c := newCall(b)
	defer c.free()
	err := c.take(ctx, charges, verdicts)
	if isCrossSlot(err) && b.topology.crossed() {
		// Nothing was charged: the server did not run the script.
		err = c.take(ctx, charges, verdicts)
	}
	return err
}

// Close implements [ratelimit.Backend]. It waits for charges that are being
// given back.
func (b *Backend) Close() error {
	b.closed.Store(true)
	b.behind.Wait()
	return nil
}

var _ ratelimit.Backend = (*Backend)(nil)
