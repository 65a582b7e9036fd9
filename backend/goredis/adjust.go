package goredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
)

// Adjust implements [ratelimit.Backend].
func (b *Backend) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	if b.closed.Load() {
		return outage(errClosed)
	}
	if len(deltas) == 0 {
		return nil
	}
	// After the change, so that what a refusal said of the time before is not
	// remembered.
	defer b.refusals.forgetAll(deltas)
	groups, err := b.group(ctx, deltas)
	if err != nil {
		return unrouted(ctx, err)
	}
	done := make(chan error, len(groups))
	for at, c := range groups {
		b.behind.Go(func() { done <- at.server.adjust(c) })
	}
	timer := b.timers.get(b.budget)
	defer b.timers.put(timer)
	for range groups {
		select {
		case answered := <-done:
			err = errors.Join(err, answered)
		case <-ctx.Done():
			return fmt.Errorf("goredis: %w", context.Cause(ctx))
		case <-timer.C:
			return outage(errLate)
		}
	}
	return err
}

// A station is a server and a slot on it.
type station struct {
	server *server
	slot   int
}

// group sorts deltas by where their keys are.
func (b *Backend) group(ctx context.Context, deltas []ratelimit.Delta) (map[station]*changes, error) {
	groups := map[station]*changes{}
	for i := range deltas {
		d := &deltas[i]
		if d.Cost < 0 {
			return nil, fmt.Errorf("%w: cost is %d, want 0 or more", ratelimit.ErrBackendBug, d.Cost)
		}
		key := string(appendKey(nil, b.namespace, d.Limit, d.Key))
		s, slot, err := b.topology.route(ctx, key)
		if err != nil {
			return nil, err
		}
		at := station{s, slot}
		if groups[at] == nil {
			groups[at] = &changes{}
		}
		groups[at].add(key, d)
	}
	return groups, nil
}

// changes are the deltas of one call of adjust.lua.
type changes struct {
	keys   []string
	limits []byte
	deltas []byte
}

func (c *changes) add(key string, d *ratelimit.Delta) {
	c.keys = append(c.keys, key)
	c.limits = appendLimit(c.limits, d.Limit)
	receipt := int64(0)
	if d.Receipt.At != 0 {
		receipt = 1
	}
	for _, n := range [...]int64{d.Cost, d.Units, d.Receipt.At, int64(d.Receipt.Entry), receipt} {
		c.deltas = appendDouble(c.deltas, n)
	}
}

func (c *changes) arguments(full bool, now []byte) []any {
	args := []any{scriptName(full), scriptText(adjustScript, full), len(c.keys)}
	for _, key := range c.keys {
		args = append(args, key)
	}
	return append(args, c.limits, c.deltas, now)
}

// adjust applies changes, all of keys of one slot.
func (s *server) adjust(c *changes) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	cmd := command{redis.NewCmd(ctx, c.arguments(false, s.now())...)}
	err = s.client.Process(ctx, cmd)
	client := s.client
	if isRedirect(err) && s.moved != nil {
		client = s.moved
		cmd = command{redis.NewCmd(ctx, c.arguments(false, s.now())...)}
		err = client.Process(ctx, cmd)
	}
	if isNoScript(err) {
		cmd = command{redis.NewCmd(ctx, c.arguments(true, s.now())...)}
		err = client.Process(ctx, cmd)
	}
	s.noticed(ctx, err)
	if err != nil {
		return classify(err)
	}
	if others, err := cmd.Int(); err != nil || others != 0 {
		return bug(fmt.Errorf("WRONGTYPE %d of %d keys hold something else (%w)", others, len(c.keys), errReply))
	}
	return nil
}
