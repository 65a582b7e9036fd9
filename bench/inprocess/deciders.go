// Package inprocess measures decisions that stay in the process: backend/memory
// and the interceptor around it, beside a floor and other libraries.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

// The names of contenders.
const (
	nameOurs  = "ours"
	nameFloor = "floor"
)

// A decider is what decides, or the floor.
type decider struct {
	name string
	// worker returns what makes decisions for the keys under a cursor, for one
	// goroutine.
	worker func(c *cursor) harness.Batch
	// insert makes one decision for a key that the decider may keep.
	insert func(key []byte) error
	// holds tells how many buckets are in use; nil if the decider cannot tell.
	holds func() int
	close func()
}

// The limits that are measured. All grants come from the burst, which does not
// run out. The rates are so low that no bucket is empty again while it is
// measured: an empty one is shorter to compute, and its place may be given away.
var (
	hotLimit  = limit{granted: true, rate: ratelimit.Rate{Count: 1, Window: time.Second}, burst: 4_000_000_000}
	coldLimit = limit{granted: true, rate: ratelimit.Rate{Count: 1, Window: 10 * time.Minute}, burst: 10_000_000}
	refusing  = limit{granted: false, rate: ratelimit.Rate{Count: 1, Window: 24 * time.Hour}, burst: 1}
)

// A limit is what all deciders of an experiment enforce.
type limit struct {
	granted bool // what is expected of calls after the first on a key
	rate    ratelimit.Rate
	burst   int64
	period  time.Duration // rivals' windows; 0 stands for longer than a run
}

func (l limit) rule() ratelimit.Rule { return ratelimit.Rule{Rate: l.rate, Burst: l.burst} }

func (l limit) rival() rivals.Limit {
	period := l.period
	if period == 0 {
		period = 24 * time.Hour
	}
	return rivals.Limit{Count: int(l.rate.Count), Window: l.rate.Window, Burst: int(l.burst), Period: period}
}

var errUnexpected = errors.New("a decision was not the expected one")

// newOurs returns the memory backend with the token buckets of n rules: one
// charge each for the same key, all in one call.
func newOurs(l limit, keys, n int, opts ...memory.Option) (*decider, error) {
	// Twice the keys, so that none is forgotten because shards fill unevenly.
	backend, err := memory.New(append(opts, memory.WithMaxKeys(2*n*keys))...)
	if err != nil {
		return nil, err
	}
	limits := make([]*ratelimit.Limit, n)
	for i := range limits {
		if limits[i], err = ratelimit.NewLimit(fmt.Sprintf("/acme.pay.v1.Payments/Charge#rule%d", i), l.rule()); err != nil {
			return nil, err
		}
	}
	first := newOurWorker(backend, limits)
	return &decider{
		name: nameOurs,
		worker: func(c *cursor) harness.Batch {
			return newOurWorker(backend, limits).batch(c, l.granted)
		},
		insert: func(key []byte) error { return first.expect(key, true) },
		holds:  func() int { return backend.Stats().Keys },
		close:  func() { _ = backend.Close() },
	}, nil
}

// An ourWorker has what the caller of a backend pools.
type ourWorker struct {
	backend  ratelimit.Backend
	charges  []ratelimit.Charge
	verdicts []ratelimit.Verdict
}

func newOurWorker(backend ratelimit.Backend, limits []*ratelimit.Limit) *ourWorker {
	w := &ourWorker{backend, make([]ratelimit.Charge, len(limits)), make([]ratelimit.Verdict, len(limits))}
	for i, limit := range limits {
		w.charges[i] = ratelimit.Charge{Limit: limit, Cost: 1}
	}
	return w
}

// expect makes one decision.
func (w *ourWorker) expect(key []byte, granted bool) error {
	for i := range w.charges {
		w.charges[i].Key = key
	}
	if err := w.backend.Take(context.Background(), w.charges, w.verdicts); err != nil {
		return err
	}
	if w.verdicts[0].Allowed != granted {
		return errUnexpected
	}
	return nil
}

func (w *ourWorker) batch(c *cursor, granted bool) harness.Batch {
	return func(n int) error {
		for range n {
			if err := w.expect(c.next(), granted); err != nil {
				return err
			}
		}
		return nil
	}
}

// newRival returns another library's limiter.
func newRival(r *rivals.Rival, l limit) (*decider, error) {
	limiter, err := r.New(l.rival())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return &decider{
		name:   r.Name,
		worker: func(c *cursor) harness.Batch { return rivalBatch(limiter, c, l.granted) },
		insert: func(key []byte) error {
			if !limiter.Take(string(key)) {
				return errUnexpected
			}
			return nil
		},
		close: limiter.Close,
	}, nil
}

// rivalBatch asks a rival with strings that cost nothing to make. A few
// decisions may be other ones: throttled gives up where callers of one key are
// in each other's way.
func rivalBatch(limiter rivals.Limiter, c *cursor, granted bool) harness.Batch {
	asked, unexpected := 0, 0
	return func(n int) error {
		for range n {
			key := c.next()
			if limiter.Take(unsafe.String(&key[0], keySize)) != granted { //nolint:gosec // the key does not change, and is kept by nobody: it is in the limiter already
				unexpected++
			}
		}
		if asked += n; unexpected > 1000+asked/10 {
			return errUnexpected
		}
		return nil
	}
}

// contestants returns ours, the floor and all rivals under one limit.
func contestants(l limit, keys int) (all []*decider, err error) {
	ours, err := newOurs(l, keys, 1)
	if err != nil {
		return nil, err
	}
	f := newFloor()
	all = []*decider{ours, {name: nameFloor, worker: f.worker, insert: func([]byte) error { return nil }, close: func() {}}}
	for i := range rivals.All {
		rival, err := newRival(&rivals.All[i], l)
		if err != nil {
			return nil, err
		}
		all = append(all, rival)
	}
	return all, nil
}
