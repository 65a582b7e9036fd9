package goredis

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An Option changes a default of [New] and [Open].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	namespace string
	budget    time.Duration
	patience  time.Duration
	queue     int
	clock     func() time.Time
	logger    *slog.Logger
	heartbeat time.Duration
	client    clientConfig
	greet     func(*server) // called with a server that answers for the first time
}

func newConfig(opts []Option) (*config, error) {
	c := &config{
		namespace: "rl", budget: 10 * time.Millisecond, queue: 10_000,
		logger: slog.Default(), heartbeat: heartbeatEvery,
	}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("goredis: an option is nil, want one of the With functions")
		}
		if err := o.apply(c); err != nil {
			return nil, err
		}
	}
	c.patience = max(5*c.budget, 100*time.Millisecond)
	return c, nil
}

// WithNamespace sets what the keys begin with, for applications that share one
// Redis: 1 to 64 bytes without braces and colons. The default is "rl".
func WithNamespace(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" || len(name) > 64 || strings.ContainsAny(name, "{}:") {
			return fmt.Errorf("goredis: WithNamespace: name is %q, want 1 to 64 bytes without braces and colons", name)
		}
		c.namespace = name
		return nil
	})
}

// WithBudget sets the longest that a decision takes, whatever Redis does, 1ms to
// a minute. A caller's own deadline counts too. The default is 10ms.
func WithBudget(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return fmt.Errorf("goredis: WithBudget: budget is %v, want 1ms to 1m", d)
		}
		c.budget = d
		return nil
	})
}

// WithQueue sets how many calls may wait for one server, 1 or more; a call that
// finds as many fails at once with [ErrQueueFull]. The default is 10,000.
func WithQueue(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("goredis: WithQueue: n is %d, want 1 or more", n)
		}
		c.queue = n
		return nil
	})
}

// WithLogger sets where warnings go: about the client's settings, from New, and
// about what the servers are found to be when they first answer. The default is
// [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if logger == nil {
			return errors.New("goredis: WithLogger: logger is nil")
		}
		c.logger = logger
		return nil
	})
}

// WithClock gives the instants of decisions in place of Redis's own clock, for
// tests: keys then stay for two minutes at least. The default is Redis's clock,
// the only one on which all instances agree.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(c *config) error {
		if now == nil {
			return errors.New("goredis: WithClock: function is nil, want one")
		}
		c.clock = now
		return nil
	})
}
