package breaker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
)

// A State is a breaker's.
type State = gobreaker.State

// A Transition is a change of a breaker's state.
type Transition struct {
	Shard    string // "" where the primary has one place
	From, To State
	At       time.Time
	// Cause is the last failure before the breaker opened; nil for other changes.
	Cause error
}

// A guard is the breaker of one shard. gobreaker keeps the state; what it calls
// under its lock is noted, and told once the lock is free. While it is closed it
// only hears of failures: successes, of which there are many, are counted beside
// its lock.
type guard struct {
	shard   string
	breaker *gobreaker.CircuitBreaker[struct{}]
	turn    atomic.Int64 // the number of the present state, below zero if it is not closed
	used    atomic.Int64 // when, ns since the backend was made
	isAway  atomic.Bool  // not closed
	made    time.Time
	settled atomic.Int64 // when it last settled while it was closed, ns since made
	decided rolling      // successes since it is closed

	mu      sync.Mutex
	pending []Transition
	has     atomic.Bool // whether pending has any
	cause   error       // the last failure
	since   time.Time   // of the present state
	away    time.Time   // since when it is not closed; zero if it is
	lost    time.Duration
	trips   int
}

// errAway is the error of a call that a breaker kept from the primary.
var errAway = fmt.Errorf("%w: breaker: the backend is away", ratelimit.ErrUnavailable)

func (b *Backend) newGuard(shard string) *guard {
	now := time.Now()
	g := &guard{shard: shard, since: now, made: now}
	g.turn.Store(1)
	g.decided.period, g.decided.start = max(b.window/slots, time.Millisecond), now
	g.settled.Store(math.MinInt64 / 2) // long ago
	g.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         shard,
		MaxRequests:  b.probes,
		Interval:     b.window,
		BucketPeriod: g.decided.period,
		Timeout:      b.jittered(),
		ReadyToTrip: func(c gobreaker.Counts) bool {
			calls := uint64(c.Requests-c.TotalExclusions) + g.decided.sum(time.Now())
			return c.TotalFailures >= b.least && float64(c.TotalFailures) >= b.share*float64(calls)
		},
		OnStateChange: func(_ string, from, to State) { g.note(from, to) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
	})
	return g
}

// errNeutral marks what says nothing of the primary's health: a caller who left,
// or a bug, which waiting does not cure and an open breaker would hide.
var errNeutral = errors.New("neutral")

// errSlow marks a call that was decided, but too late.
var errSlow = errors.New("slow")

// run asks the primary, if the breaker lets it. A nil error is a verdict.
func (g *guard) run(ctx context.Context, start time.Time, b *Backend, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	turn := g.turn.Load()
	if turn > 0 {
		err := b.ask(ctx, charges, verdicts)
		g.asked(ctx, b, turn, start, err)
		return err
	}
	err := errAway
	g.probe(b, func() error {
		err = b.ask(ctx, charges, verdicts)
		return g.judge(ctx, err, b.now().Sub(start) > b.slow)
	})
	return err
}

// asked counts a call that began at start, in a turn that was closed.
func (g *guard) asked(ctx context.Context, b *Backend, turn int64, start time.Time, err error) {
	end := start
	if !b.prompt { // else it was not slow, and a look at the clock is spared
		end = b.now()
	}
	if err == nil && end.Sub(start) <= b.slow {
		if g.turn.Load() == turn {
			g.decided.add(end)
		}
		return
	}
	if failure := g.judge(ctx, err, true); !errors.Is(failure, errNeutral) {
		g.failed(b, turn, failure)
	}
}

// failed tells the breaker of a failure, unless it has another state since.
func (g *guard) failed(b *Backend, turn int64, failure error) {
	if g.turn.Load() != turn {
		return
	}
	_, _ = g.breaker.Execute(func() (struct{}, error) {
		if g.turn.Load() != turn {
			return struct{}{}, errNeutral
		}
		return struct{}{}, failure
	})
	if g.has.Load() {
		g.tell(b)
	}
}

// probe asks by a function that returns how the shard did, if the breaker, which is
// not closed, lets it. It tells whether it did.
func (g *guard) probe(b *Backend, ask func() error) (asked bool) {
	_, _ = g.breaker.Execute(func() (struct{}, error) {
		asked = true
		return struct{}{}, ask()
	})
	if g.has.Load() {
		g.tell(b)
	}
	return asked
}

// judge returns what a call's end is to the breaker.
func (g *guard) judge(ctx context.Context, err error, slow bool) error {
	switch {
	case err == nil && slow:
		g.fail(errSlow)
		return errSlow
	case err == nil:
		return nil
	case isCallers(ctx, err), errors.Is(err, ratelimit.ErrBackendBug) && !errors.Is(err, errPanic):
		return errNeutral
	}
	g.fail(err)
	return err
}

func (g *guard) fail(err error) {
	g.mu.Lock()
	g.cause = err
	g.mu.Unlock()
}

// note keeps a change of state until it can be told.
func (g *guard) note(from, to State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	turn := max(g.turn.Load(), -g.turn.Load()) + 1
	if to != gobreaker.StateClosed {
		turn = -turn
	}
	g.turn.Store(turn)
	g.decided.clear()
	t := Transition{Shard: g.shard, From: from, To: to, At: now}
	switch to {
	case gobreaker.StateOpen:
		t.Cause = g.cause
		g.trips++
		if g.away.IsZero() {
			g.away = now
		}
		g.isAway.Store(true)
	case gobreaker.StateClosed:
		g.lost += now.Sub(g.away)
		g.away = time.Time{}
		g.isAway.Store(false)
	}
	g.since = now
	g.pending = append(g.pending, t)
	g.has.Store(true)
}

// tell tells what was noted, and settles the ledger when the primary is back.
func (g *guard) tell(b *Backend) {
	g.mu.Lock()
	told := slices.Clone(g.pending)
	g.pending = g.pending[:0]
	g.has.Store(false)
	g.mu.Unlock()
	for _, t := range told {
		b.announce(t)
		if t.To == gobreaker.StateClosed {
			b.settle(g.shard)
		}
	}
}

// announce tells the callback of a change. If that panics, the call that happened
// to tell is decided all the same.
func (b *Backend) announce(t Transition) {
	if b.transition == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			b.counts.met(fmt.Errorf("%w: breaker: what WithOnTransition was given panicked: %v", ratelimit.ErrBackendBug, p))
		}
	}()
	b.transition(t)
}

// awaySince returns since when the breaker is not closed, and whether.
func (g *guard) awaySince() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away, !g.away.IsZero()
}

// settlesAgain tells, once in a time, whether what is in the ledger although the
// breaker is closed is to be settled: grants of calls that failed alone, of a shard
// that has another name now, or that were under way when the breaker closed.
func (g *guard) settlesAgain(every time.Duration) bool {
	now, last := int64(time.Since(g.made)), g.settled.Load()
	return now-last > int64(every) && g.settled.CompareAndSwap(last, now)
}

// isOpen tells whether calls are kept from the primary.
func (g *guard) isOpen() bool { return g.breaker.State() == gobreaker.StateOpen }
