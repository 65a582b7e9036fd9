package breaker

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/protolimit/ratelimit"
)

// An Option changes a default of [New].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	budget     time.Duration
	bounded    bool          // the primary keeps the budget itself
	prompt     bool          // and what it decides within it is not slow
	slow       time.Duration // 0 is the budget
	share      float64
	least      uint32
	window     time.Duration
	open       time.Duration
	probes     uint32
	instances  int
	counter    ratelimit.Counter
	ledger     int
	longest    time.Duration
	transition func(Transition)
}

func defaults() config {
	return config{
		budget: 10 * time.Millisecond,
		share:  0.5, least: 20, window: 2 * time.Second,
		open: time.Second, probes: 3, ledger: 10_000,
	}
}

// WithBudget sets the longest that a call waits for the primary, be it Take or
// Adjust, 1ms to a minute.
// A primary that keeps a budget itself and no longer one ([ratelimit.Bounded])
// is asked in the caller's goroutine; another one beside it. The default is 10ms.
func WithBudget(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return fmt.Errorf("breaker: WithBudget: budget is %v, want 1ms to 1m", d)
		}
		c.budget = d
		return nil
	})
}

// WithTrip sets when a breaker opens: when at least failures of the calls of the
// last window, 100ms to a day, and the share of them, above 0 to 1, failed. The
// default is 20 and 0.5 in 2s.
func WithTrip(failures int, share float64, window time.Duration) Option {
	return optionFunc(func(c *config) error {
		inRange := share > 0 && share <= 1 // which NaN is not
		if failures < 1 || !inRange || window < 100*time.Millisecond || window > longestTime {
			return fmt.Errorf("breaker: WithTrip: %d failures, a share of %v and a window of %v, want 1 or more, above 0 to 1, and 100ms to 24h", failures, share, window)
		}
		c.least, c.share, c.window = uint32(min(failures, 1<<30)), share, window
		return nil
	})
}

// WithSlow sets how long a call of the primary may take before it counts as
// failed, although its verdict is used. The default is the budget. What a
// [ratelimit.Bounded] primary decides is not measured if its own budget is no longer.
func WithSlow(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("breaker: WithSlow: d is %v, want above 0", d)
		}
		c.slow = d
		return nil
	})
}

// longestTime is the longest that options take.
const longestTime = 24 * time.Hour

// WithOpen sets how long a breaker stays open before it lets probes through, 10ms
// to a day, and how many have to succeed, one after another; no more than these
// reach the primary meanwhile. Each breaker adds up to a quarter of the time, by
// chance, so that instances do not probe together. The default is 1s and 3.
func WithOpen(d time.Duration, probes int) Option {
	return optionFunc(func(c *config) error {
		if d < 10*time.Millisecond || d > longestTime || probes < 1 {
			return fmt.Errorf("breaker: WithOpen: %v and %d probes, want 10ms to 24h and 1 or more", d, probes)
		}
		c.open, c.probes = d, uint32(min(probes, 1<<30))
		return nil
	})
}

// WithInstances sets how many instances share the limits, 1 or more: the fallback
// enforces one part of so many. The default is what the primary counts
// ([ratelimit.Counter]), or 1.
func WithInstances(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("breaker: WithInstances: n is %d, want 1 or more", n)
		}
		c.instances = n
		return nil
	})
}

// WithLedger sets how many buckets that the fallback granted from are kept to be
// charged to the primary when it is back; others are dropped and counted. 0 keeps
// none. The default is 10,000.
func WithLedger(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("breaker: WithLedger: n is %d, want 0 or more", n)
		}
		c.ledger = n
		return nil
	})
}

// WithLongest sets how long a breaker may be open before rules that say Local or
// Allow deny too. The default is 0: for ever.
func WithLongest(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("breaker: WithLongest: d is %v, want 0 or more", d)
		}
		c.longest = d
		return nil
	})
}

// WithOnTransition gives what is told of each change of a breaker's state, in the
// goroutine of some call and outside of any lock. It must be quick.
func WithOnTransition(f func(Transition)) Option {
	return optionFunc(func(c *config) error {
		c.transition = f
		return nil
	})
}

// jittered returns the time that one breaker stays open.
func (c *config) jittered() time.Duration {
	return c.open + rand.N(c.open/4+1) //nolint:gosec // nobody gains by guessing it
}
