package backendtest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/protolimit/ratelimit"
)

// A recorder is a reporter that keeps the first failure.
type recorder struct{ failure string }

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs one check on b, and returns why it failed, or "".
func failure(c check, b ratelimit.Backend, clock *clock, cfg *config) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.failure = fmt.Sprint("panic: ", p)
			}
		}()
		c.run(newEnv(r, b, clock, cfg))
	}()
	<-done
	return r.failure
}

// A broken backend is a model with something wrong about it.
type broken struct {
	*model
	clock  *clock
	take   func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error
	change func(b *broken, deltas []ratelimit.Delta) error
}

func (b *broken) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if b.take == nil || len(charges) != len(verdicts) || ctx.Err() != nil {
		return b.model.Take(ctx, charges, verdicts)
	}
	return b.take(b, charges, verdicts)
}

func (b *broken) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	if b.change == nil || ctx.Err() != nil {
		return b.model.Adjust(ctx, deltas)
	}
	return b.change(b, deltas)
}

// ask is Take of the model.
func (b *broken) ask(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	return b.model.Take(context.Background(), charges, verdicts)
}

// TestBroken runs the checks on backends that are broken on purpose: each kind
// of checks that is to find a fault has one that fails and says why.
func TestBroken(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.races && raceDetector {
				t.Skip("the race detector fails a test that shows it")
			}
			for _, kind := range f.found {
				if !found(f, kind) {
					t.Errorf("no check of kind %q fails", kind)
				}
			}
		})
	}
}

// found tells whether a check of the kind fails on a backend with the fault.
func found(f fault, kind string) bool {
	cfg := newConfig([]Option{WithGrants(20_000), WithTraces(50), WithSeed(1)})
	for _, c := range checks(cfg) {
		if !strings.HasPrefix(c.name, kind+"/") {
			continue
		}
		clock := newClock()
		if failure(c, f.made(clock), clock, cfg) != "" {
			return true
		}
	}
	return false
}

// TestSplit has a backend that decides charges on different keys one by one,
// and takes back what was granted where another one refuses, as on a cluster.
func TestSplit(t *testing.T) {
	cfg := newConfig([]Option{WithGrants(1000), WithTraces(50), WithSplitCalls(), WithUnorderedClock()})
	for _, c := range checks(cfg) {
		if strings.HasPrefix(c.name, "demand/") {
			continue // of one bucket, and slow
		}
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			if why := failure(c, &broken{model: newModel(clock.now), clock: clock, take: reserve}, clock, cfg); why != "" {
				t.Error(why)
			}
		})
	}
}

// reserve takes by key, and takes back.
func reserve(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	byKey := map[string][]int{}
	for i, c := range charges {
		if c.Cost < 0 {
			return b.ask(charges, verdicts)
		}
		byKey[string(c.Key)] = append(byKey[string(c.Key)], i)
	}
	refused := false
	for _, at := range byKey {
		part, answers := make([]ratelimit.Charge, len(at)), make([]ratelimit.Verdict, len(at))
		for i, j := range at {
			part[i] = charges[j]
		}
		if err := b.ask(part, answers); err != nil {
			return err
		}
		for i, j := range at {
			verdicts[j] = answers[i]
		}
		refused = refused || !allAllowed(answers)
	}
	for i := range verdicts {
		if refused && verdicts[i].Receipt.At != 0 && charges[i].Cost > 0 {
			d := delta(charges[i], verdicts[i], -charges[i].Cost)
			if err := b.model.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
				return err
			}
		}
	}
	if !refused {
		return nil
	}
	for i, c := range charges {
		if !verdicts[i].Allowed {
			continue
		}
		c.Cost = 0
		if err := b.ask([]ratelimit.Charge{c}, verdicts[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// TestShortened has a trace with one call that matters among many, and expects
// little of it to be left.
func TestShortened(t *testing.T) {
	clock := newClock()
	cfg := newConfig([]Option{WithTraces(5), WithSeed(7)})
	b := &broken{model: newModel(clock.now), clock: clock, take: func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		err := b.ask(charges, verdicts)
		for i := range verdicts {
			if !verdicts[i].Allowed {
				verdicts[i].Remaining++
			}
		}
		return err
	}}
	why := failure(check{"", func(e *env) {
		for i := range uint64(5) {
			e.compareTrace(i)
		}
	}}, b, clock, cfg)
	if !strings.Contains(why, "of WithSeed(7) differs") || strings.Count(why, "\n") > 8 {
		t.Errorf("got %q, want a trace of a few calls", why)
	}
}
