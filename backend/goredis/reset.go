package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// resetTime bounds how long each server is waited for.
const resetTime = 2 * time.Second

// Reset empties the buckets that limits have for a key, for operators: it is as
// if the caller had not called. [Key] makes the key. It returns how many buckets
// something was used of; 0 may mean that the key or a bucket's name is another.
//
// Instances that remember a refusal of the caller go on refusing for up to a
// second. Buckets on several servers of a cluster are reset apart: after an error
// those on others may have been. The error wraps the cause of ctx's end, or
// [ratelimit.ErrUnavailable]; on a cluster it names each server that failed, and
// [ratelimit.ShardError] has its address. The decisions' time budget does not
// bound it: each server is waited for up to 2 seconds, all at the same time.
func (b *Backend) Reset(ctx context.Context, key []byte, limits ...*ratelimit.Limit) (int, error) {
	if b.closed.Load() {
		return 0, outage(errClosed)
	}
	if slices.Contains(limits, nil) {
		return 0, bug(errors.New("a limit is nil, want one"))
	}
	if err := context.Cause(ctx); err != nil {
		return 0, fmt.Errorf("goredis: %w", err)
	}
	tasks, err := b.plan(ctx, key, limits)
	if err != nil {
		return 0, unrouted(ctx, err)
	}
	// After the servers, so that what a refusal said of the time before is not
	// remembered.
	defer b.refusals.forgetLimits(limits, key)
	for _, t := range tasks {
		if !b.behind.start(t.run) {
			return 0, outage(errClosed)
		}
	}
	timer := time.NewTimer(resetTime)
	defer timer.Stop()
	reset := 0
	var errs []error
	for _, t := range tasks {
		select {
		case <-t.done:
		case <-ctx.Done():
			return reset, fmt.Errorf("goredis: %w", context.Cause(ctx))
		case <-b.behind.ctx.Done():
			return reset, outage(errClosed)
		case <-timer.C:
			timer.Reset(0) // it stays over for the others
		}
		n, err := t.answer()
		reset += n
		errs = append(errs, t.failed(err))
	}
	return reset, errors.Join(errs...)
}

// errNoReset is the end of the time that a server has for a reset.
var errNoReset = fmt.Errorf("no answer within %v", resetTime)

// A resetTask is what a reset asks of one server.
type resetTask struct {
	server *server
	ctx    context.Context
	keys   map[int][]string // by slot

	done  chan struct{} // closed once the others are filled
	reset int
	err   error
}

// plan sorts the keys of a reset by their servers. The caller may leave before
// these are done.
func (b *Backend) plan(ctx context.Context, key []byte, limits []*ratelimit.Limit) (map[*server]*resetTask, error) {
	tasks := map[*server]*resetTask{}
	for _, l := range limits {
		name := string(appendKey(nil, b.namespace, l, key))
		s, slot, err := b.topology.route(ctx, name)
		if err != nil {
			return nil, err
		}
		t := tasks[s]
		if t == nil {
			t = &resetTask{server: s, ctx: b.behind.ctx, keys: map[int][]string{}, done: make(chan struct{})}
			tasks[s] = t
		}
		t.keys[slot] = append(t.keys[slot], name)
	}
	return tasks, nil
}

// run removes the keys, those of each slot by one command.
func (t *resetTask) run() {
	defer close(t.done)
	ctx, cancel := context.WithTimeout(t.ctx, resetTime)
	defer cancel()
	for _, keys := range t.keys {
		if ctx.Err() != nil {
			t.err = errors.Join(t.err, outage(errNoReset))
			return
		}
		n, err := t.server.unlink(ctx, keys)
		t.reset += n
		t.err = errors.Join(t.err, err)
	}
}

// answer returns what became of a task that is done, or out of time.
func (t *resetTask) answer() (reset int, err error) {
	select {
	case <-t.done:
		return t.reset, t.err
	default:
		return 0, outage(errNoReset)
	}
}

// failed returns an error that says which server of a cluster it is about.
func (t *resetTask) failed(err error) error {
	if err == nil || t.server.name == "" {
		return err
	}
	return &ratelimit.ShardError{Shard: t.server.name, Err: fmt.Errorf("server %s: %w", t.server.name, err)}
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
	if n, err = cmd.Int(); err != nil {
		return 0, bug(err)
	}
	return n, nil
}
