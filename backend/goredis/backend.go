package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
)

// A Backend is a [ratelimit.Backend] in Redis. It is safe for concurrent use.
type Backend struct {
	config
	topology topology
	closed   atomic.Bool
	timers   timerPool
	loud     loud
	careful  careful
	refusals *refusals             // nil with a clock of a test's, under which they would differ
	behind   *behind               // what goes on after its call has returned
	fleet    fleet                 // the other instances
	owned    redis.UniversalClient // what Close closes; nil for a caller's client
}

// New returns a Backend that decides through client, a *redis.Client, of
// [redis.NewFailoverClient] too, or a *redis.ClusterClient. It neither changes
// the client nor dials, and Close does not close it.
//
// It refuses settings with which decisions would not come back after an outage,
// or would be made on replicas, all of them in one error. Those that only make
// an outage longer, the defaults of go-redis among them, it accepts with a
// warning; [NewClient] has better ones.
func New(client redis.UniversalClient, opts ...Option) (*Backend, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.client.named {
		return nil, errors.New("goredis: New: WithTLSConfig and WithCredentials are for NewClient and Open: New changes no client")
	}
	b, err := newBackend(client, c)
	if err != nil {
		return nil, fmt.Errorf("goredis: New: %w", err)
	}
	return b, nil
}

func newBackend(client redis.UniversalClient, c *config) (*Backend, error) {
	judged, err := judgeClient(client, c.budget)
	if err == nil {
		err = refuse(judged.broken)
	}
	if err != nil {
		return nil, err
	}
	if len(judged.slow) > 0 {
		c.logger.Warn("goredis: settings of the client make an outage longer; goredis.NewClient has better ones",
			"settings", joinFaults(judged.slow))
	}
	b := &Backend{config: *c, behind: newBehind()}
	c.greet = b.greet
	if c.clock == nil {
		b.refusals = newRefusals()
	}
	switch client := client.(type) {
	case *redis.Client:
		b.topology = &single{server: newServer(b.behind, client, nil, c), logger: c.logger}
	case *redis.ClusterClient:
		b.topology = clusterOf(client, c, b.behind)
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
		b.loud.tell(b.logger, err)
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

// Budget implements [ratelimit.Bounded]: it is that of [WithBudget].
func (b *Backend) Budget() time.Duration { return b.budget }

// Close implements [ratelimit.Backend]. Calls that wait fail, what waits to be
// given back is, and nothing of the Backend is under way when Close returns: a
// server that went silent is waited for until the client's timeouts end that. It
// closes the client if it is of [Open].
func (b *Backend) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.behind.close()
	if b.owned == nil {
		return nil
	}
	if err := b.owned.Close(); err != nil {
		return fmt.Errorf("goredis: Close: %w", err)
	}
	return nil
}

var (
	_ ratelimit.Backend = (*Backend)(nil)
	_ ratelimit.Sharder = (*Backend)(nil)
	_ ratelimit.Counter = (*Backend)(nil)
	_ ratelimit.Bounded = (*Backend)(nil)
)
