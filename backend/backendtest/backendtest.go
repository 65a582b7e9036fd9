// Package backendtest is the contract of [ratelimit.Backend] as a test suite:
// docs/algorithms.md in step tables, all or nothing, adjustments, changes of
// limits, concurrency, the ends of the ranges, and random traces that are
// compared, call by call, with a plain model of the page.
//
//	func TestContract(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T, now func() time.Time) ratelimit.Backend {
//			return mybackend.New(mybackend.WithClock(now))
//		})
//	}
//
// It needs only the standard library: the package adds no flag to a user's test
// binary, no file to a user's tree, and no module to a user's build.
package backendtest

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// Open returns a backend for one subtest of t, which the suite closes. Where it
// cannot, it ends t.
//
// The backend's clock is now, which any goroutine may call. It stands still but
// for steps of the suite, forward and back, in the years 1976 to 2180. What the backend drops by a clock of its own, such as a
// server's expiry, has to outlast that: nothing may be lost within a minute of
// real time.
//
// Backends may share a store and its state: each Run has bucket names of its
// own, and so does each subtest. Calls carry no deadline unless that is what is
// tested, so a time budget of the backend's own should leave room for a slow
// machine.
type Open func(t *testing.T, now func() time.Time) ratelimit.Backend

// Run tests the backends that open returns, each in a subtest, one after
// another. A failure prints the calls that led to it.
func Run(t *testing.T, open Open, opts ...Option) {
	t.Helper()
	cfg := newConfig(opts)
	for _, c := range checks(cfg) {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			backend := open(t, clock.now)
			t.Cleanup(func() {
				if err := backend.Close(); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
			})
			c.run(newEnv(t, backend, clock, cfg))
		})
	}
}

// An Option changes a default of Run.
type Option interface{ apply(cfg *config) }

type option func(cfg *config)

func (o option) apply(cfg *config) { o(cfg) }

// config is what the options set.
type config struct {
	grants    int
	traces    int
	seed      uint64
	split     bool
	unordered bool
}

func newConfig(opts []Option) *config {
	cfg := &config{grants: 10_000_000, traces: 500, seed: newSeed()}
	for _, o := range opts {
		o.apply(cfg)
	}
	return cfg
}

// WithGrants sets how many grants on one bucket the test of drift makes. The
// default is 10 million, a second or two in the process; a backend whose grants
// are round trips wants fewer. The race detector makes a tenth of them, and
// -short at most 100,000.
func WithGrants(n int) Option { return option(func(cfg *config) { cfg.grants = n }) }

// WithTraces sets how many random traces, of some 60 calls each, are compared
// with the model. The default is 500.
func WithTraces(n int) Option { return option(func(cfg *config) { cfg.traces = n }) }

// WithSeed makes the random traces those of an earlier run, whose failure told
// the seed. The default is another seed each time.
func WithSeed(seed uint64) Option { return option(func(cfg *config) { cfg.seed = seed }) }

// WithSplitCalls says that charges of one call on different keys are decided
// apart, and taken back where another one refuses, as on a cluster. Random
// traces then keep to one key a call, since taking back may round what is left
// by a step of a level, and a call may be refused for units that another one
// holds meanwhile. The default is that a call is one decision.
func WithSplitCalls() Option { return option(func(cfg *config) { cfg.split = true }) }

// WithUnorderedClock says that the backend reads the suite's clock before it
// puts calls in order, as one does that sends instants to a server which has a
// better clock outside of tests. The default is that of two calls on a bucket
// the one decided later has the later or the same instant, so that a caller
// that is held up between clock and decision grants nothing twice.
func WithUnorderedClock() Option { return option(func(cfg *config) { cfg.unordered = true }) }

// A check is one subtest.
type check struct {
	name string
	run  func(e *env)
}

// checks returns all of them; a name has its kind before the slash.
func checks(cfg *config) []check {
	var all []check
	for _, group := range [][]check{
		stepChecks(), demandChecks(), togetherChecks(), peekChecks(), adjustChecks(), lateChecks(),
		changeChecks(), rangeChecks(), identityChecks(), inputChecks(),
		concurrencyChecks(cfg), leavingChecks(), driftChecks(), traceChecks(),
	} {
		all = append(all, group...)
	}
	return all
}
