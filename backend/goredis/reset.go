package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// resetTime bounds how long one server is waited for.
const resetTime = 2 * time.Second

// Reset empties the buckets that limits have for a key, for operators: it is as
// if the caller had not called. [Key] makes the key. It returns how many buckets
// something was used of; 0 may mean that the key or a bucket's name is another.
//
// Instances that remember a refusal of the caller go on refusing for up to a
// second. Buckets on several servers of a cluster are reset one by one; after an
// error some may have been. It wraps the cause of ctx's end, or
// [ratelimit.ErrUnavailable]. The decisions' time budget does not bound it.
func (b *Backend) Reset(ctx context.Context, key []byte, limits ...*ratelimit.Limit) (int, error) {
	if b.closed.Load() {
		return 0, outage(errClosed)
	}
	type answer struct {
		reset int
		err   error
	}
	done := make(chan answer, 1)
	if slices.Contains(limits, nil) {
		return 0, bug(errors.New("a limit is nil, want one"))
	}
	started := b.behind.start(func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTime)
		defer cancel()
		n, err := b.reset(within, key, limits)
		done <- answer{n, err}
	})
	if !started {
		return 0, outage(errClosed)
	}
	select {
	case a := <-done:
		return a.reset, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("goredis: %w", context.Cause(ctx))
	}
}

func (b *Backend) reset(ctx context.Context, key []byte, limits []*ratelimit.Limit) (reset int, err error) {
	keys := map[station][]string{}
	for _, l := range limits {
		name := string(appendKey(nil, b.namespace, l, key))
		s, slot, routeErr := b.topology.route(ctx, name)
		if routeErr != nil {
			return 0, classify(routeErr)
		}
		at := station{s, slot}
		keys[at] = append(keys[at], name)
	}
	for at, names := range keys {
		n, unlinkErr := at.server.unlink(ctx, names)
		reset += n
		err = errors.Join(err, unlinkErr)
	}
	if b.refusals != nil {
		for _, l := range limits {
			b.refusals.forget(l, key)
		}
	}
	return reset, err
}

// unlink removes keys of one slot and returns how many there were.
func (s *server) unlink(ctx context.Context, keys []string) (n int, err error) {
	args := make([]any, 0, 1+len(keys))
	args = append(args, "unlink")
	for _, key := range keys {
		args = append(args, key)
	}
	cmd, err := s.call(ctx, func(bool) []any { return args })
	if err != nil {
		return 0, classify(err)
	}
	return cmd.Int()
}
