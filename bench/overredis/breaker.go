package overredis

import (
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"

	"github.com/protolimit/ratelimit/bench/harness"
)

// BreakerSection is the table of what the breaker costs.
const BreakerSection = "breaker"

const (
	nameGuarded = "in a breaker"
	nameAlone   = "alone"
)

// fleet is of how many instances a guarded decider takes itself for one.
const fleet = 3

// guarded is callers of a healthy Redis through a breaker, and without one.
func guarded() *harness.Experiment {
	return &harness.Experiment{
		Section: BreakerSection, Name: "healthy", Metrics: loadMetrics, Slices: 21,
		Rows: []harness.Row{
			{Label: "c64, p50", Metric: middle, Of: nameGuarded, Against: nameAlone, Budget: harness.AtMost(1.05)},
			{Label: "c64, decisions a second", Metric: throughput, Of: nameGuarded, Against: nameAlone, Budget: harness.AtLeast(0.88)},
			{Label: "c64, client allocations a decision", Metric: allocations, Of: nameGuarded, Against: nameAlone, Budget: harness.AtMost(1)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			s.open(func() (*decider, error) { return s.newOurs(nameAlone, steady, 1) })
			s.open(func() (*decider, error) { return s.newGuarded(steady) })
			return s.contenders(64)
		},
	}
}

// newGuarded returns the backend in a breaker.
func (s *stage) newGuarded(l limit) (*decider, error) {
	server := s.start()
	primary, err := goredis.Open(server.URL(), goredis.WithBudget(timely))
	if err != nil {
		return nil, err
	}
	local, err := memory.New()
	if err != nil {
		return nil, err
	}
	b, err := breaker.New(primary, local, breaker.WithBudget(timely), breaker.WithInstances(fleet))
	if err != nil {
		return nil, err
	}
	d, err := s.newDecider(b, l, shortBucket, 1)
	if err != nil {
		return nil, err
	}
	d.name, d.server = nameGuarded, server
	return d, s.fill(d, l.used)
}
