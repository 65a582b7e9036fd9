package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

const (
	// backWithin is how long a breaker may take to close after a fault.
	backWithin = 10 * time.Second
	// lookEvery is how often something is looked for: seldom, as it costs the
	// processors that are measured.
	lookEvery = 20 * time.Millisecond
)

// sample measures metrics: callers while all is well, while Redis fails, and after
// that, a phase each.
func (f *fault) sample(phase time.Duration) ([]float64, error) {
	logging.Disable() // the client tells each dial that fails
	var program redistest.Program
	defer program.Close()
	r := f.rig(&program, phase)
	b, err := open(r.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // what is still to be charged is dropped
	l, err := newLoad(b)
	if err != nil {
		return nil, err
	}
	if err := l.warmUp(b); err != nil {
		return nil, err
	}
	runtime.GC() // what was started is nobody's cost
	before := b.Status().Local
	l.start()
	time.Sleep(phase)
	begun := time.Now()
	r.begin()
	time.Sleep(phase - time.Since(begun))
	r.end()
	time.Sleep(phase)
	err = awaitClosed(b)
	l.end()
	if err != nil {
		return nil, err
	}
	m, err := l.measure()
	if err != nil {
		return nil, err
	}
	byFallback := b.Status().Local - before
	if byFallback == 0 && !f.well {
		return nil, errors.New("the fallback decided nothing: there was no fault")
	}
	return []float64{
		1000 * quantile(m.took, 0.5), quantile(m.took, 0.99), quantile(m.took, 0.999), quantile(m.took, 1),
		quantile(m.due, 0.999), 100 * m.late, 100 * float64(byFallback) / float64(len(m.took)), m.perSecond,
	}, nil
}

// open returns what a service has, with the defaults of all of it.
func open(url string) (*breaker.Backend, error) {
	primary, err := goredis.Open(url, goredis.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	local, err := memory.New()
	if err != nil {
		return nil, err
	}
	return breaker.New(primary, local)
}

// warmUp decides on some users until Redis does on all of them.
func (l *load) warmUp(b *breaker.Backend) error {
	charges, verdicts := []ratelimit.Charge{{Limit: l.limit, Cost: 1}}, make([]ratelimit.Verdict, 1)
	for until := time.Now().Add(backWithin); time.Now().Before(until); time.Sleep(lookEvery) {
		before := b.Status().Local
		for _, charges[0].Key = range l.keys[:callers] {
			if err := b.Take(context.Background(), charges, verdicts); err != nil {
				return err
			}
		}
		if b.Status().Local == before {
			return nil
		}
	}
	return fmt.Errorf("not within %v: decisions of a Redis that is well: %v", backWithin, b.Status())
}

// awaitClosed returns when all breakers let calls through.
func awaitClosed(b *breaker.Backend) error {
	isAway := func(s breaker.ShardStatus) bool { return s.State != gobreaker.StateClosed }
	for until := time.Now().Add(backWithin); slices.ContainsFunc(b.Status().Shards, isAway); time.Sleep(lookEvery) {
		if time.Now().After(until) {
			return fmt.Errorf("not within %v: closed breakers: %v", backWithin, b.Status())
		}
	}
	return nil
}
