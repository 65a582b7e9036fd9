package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	timer := b.timers.get(b.budget)
	defer b.timers.put(timer)
	for at, c := range groups {
		if err := at.server.changes.submit(c); err != nil {
			return outage(err)
		}
	}
	var errs []error
	for _, c := range groups {
		select {
		case answered := <-c.done:
			errs = append(errs, answered)
		case <-ctx.Done():
			return fmt.Errorf("goredis: %w", context.Cause(ctx))
		case <-b.behind.ctx.Done():
			return outage(errClosed)
		case <-timer.C:
			return outage(errLate)
		}
	}
	return errors.Join(errs...)
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
			groups[at] = newChanges(slot)
		}
		groups[at].add(key, d)
	}
	return groups, nil
}

// changes are deltas of one slot, those of one Adjust or of several that go out
// together.
type changes struct {
	slot   int
	keys   []string
	limits []byte
	deltas []byte
	done   chan error // receives what became of them
}

func newChanges(slot int) *changes { return &changes{slot: slot, done: make(chan error, 1)} }

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

// change applies what waits, that of each slot by as few calls of the script as
// hold it. Once the server does not answer, the rest is not sent: nobody waits for
// it so long.
func (s *server) change(waiting []*changes) {
	for len(waiting) > 0 {
		together := &changes{slot: waiting[0].slot}
		var part, rest []*changes
		for _, c := range waiting {
			if c.slot != together.slot || len(part) > 0 && len(together.keys)+len(c.keys) > maxBuckets {
				rest = append(rest, c)
				continue
			}
			part = append(part, c)
			together.keys = append(together.keys, c.keys...)
			together.limits = append(together.limits, c.limits...)
			together.deltas = append(together.deltas, c.deltas...)
		}
		reply, err := s.adjust(together)
		for _, c := range part {
			if err != nil {
				c.done <- err
				continue
			}
			c.done <- c.read(reply[:len(c.keys)])
			reply = reply[len(c.keys):]
		}
		if _, answered := answerOf(err); err != nil && !answered {
			for _, c := range rest {
				c.done <- err
			}
			return
		}
		waiting = rest
	}
}

// read returns an error if the script left a key alone.
func (c *changes) read(reply string) error {
	if others := strings.Count(reply, "0"); others > 0 {
		return bug(fmt.Errorf("WRONGTYPE %d of %d keys hold something else", others, len(c.keys)))
	}
	return nil
}

// adjust calls the script and returns a byte for each change: 1, or 0 for a key
// that holds something else.
func (s *server) adjust(c *changes) (reply string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	cmd, err := s.call(ctx, func(full bool) []any { return c.arguments(full, s.now()) })
	if err != nil {
		return "", classify(err)
	}
	if reply, err = cmd.Text(); err != nil || len(reply) != len(c.keys) {
		return "", bug(errReply)
	}
	return reply, nil
}
