// Package overredis measures decisions that are made in Redis: backend/goredis
// beside a bare call of its script and other libraries, each on a redis-server of
// its own that is started on this machine.
package overredis

import (
	"fmt"
	"strings"

	"github.com/protolimit/ratelimit/internal/redistest"

	"github.com/protolimit/ratelimit/bench/harness"
)

// Section is the table of these experiments.
const Section = "redis"

// The names of contenders. The one that others are measured by is the first of
// rivals.OverRedis.
const (
	nameOurs   = "ours"
	nameBare   = "bare EVALSHA"
	nameSlow   = "ours, 1 a minute"
	nameRival  = "redis_rate"
	nameRules  = "ours, three rules"
	nameThrice = "redis_rate, asked three times"
)

// The metrics of callers that decide all the time.
const (
	throughput  = "decisions a second"
	middle      = "p50"
	slow        = "p99"
	redisCPU    = "Redis CPU"
	trips       = "round trips"
	allocations = "allocations"
)

var loadMetrics = []harness.Metric{
	{Name: throughput},
	{Name: middle, Unit: "µs"},
	{Name: slow, Unit: "µs"},
	{Name: redisCPU, Unit: "µs"},
	{Name: trips},
	{Name: allocations},
}

// loadSlices is how many slices of a contender make a round's figure.
const loadSlices = 3

// Experiments are all that is measured over Redis.
func Experiments() []*harness.Experiment {
	return []*harness.Experiment{
		loaded(1, harness.Row{Label: "p50", Metric: middle, Against: nameBare, Budget: harness.AtMost(1.1)},
			harness.Row{Label: "Redis CPU a decision", Metric: redisCPU, Against: nameRival, Budget: harness.AtMost(0.85)},
			harness.Row{Label: "round trips a decision", Metric: trips, Budget: harness.AtMost(1)},
			harness.Row{Label: "client allocations a decision", Metric: allocations}),
		threeRules(),
		loaded(16, harness.Row{Label: "decisions a second", Metric: throughput, Against: nameRival, Budget: harness.AtLeast(1.6)},
			harness.Row{Label: "Redis CPU a decision", Metric: redisCPU, Against: nameRival}),
		loaded(64, harness.Row{Label: "decisions a second", Metric: throughput, Against: nameRival, Budget: harness.AtLeast(3)},
			harness.Row{Label: "p99", Metric: slow, Against: nameRival, Budget: harness.AtMost(0.25)},
			harness.Row{Label: "Redis CPU a decision", Metric: redisCPU, Against: nameRival, Budget: harness.AtMost(0.28)},
			harness.Row{Label: "round trips a decision", Metric: trips, Budget: harness.AtMost(0.06)},
			harness.Row{Label: "client allocations a decision", Metric: allocations, Budget: harness.AtMost(5)}),
		loaded(256, harness.Row{Label: "decisions a second", Metric: throughput, Against: nameRival, Budget: harness.AtLeast(5)},
			harness.Row{Label: "Redis CPU a decision", Metric: redisCPU, Against: nameRival, Budget: harness.AtMost(0.2)}),
		refused(),
		memoryUse(),
		stalls(),
		guarded(),
	}
}

// loaded is callers that decide all the time, each one decision after the other,
// for many keys in turn.
func loaded(callers int, rows ...harness.Row) *harness.Experiment {
	for i := range rows {
		rows[i].Of = nameOurs
		rows[i].Label = fmt.Sprintf("c%d, %s", callers, rows[i].Label)
	}
	return &harness.Experiment{
		Section: Section, Name: fmt.Sprintf("c%d", callers), Metrics: loadMetrics, Slices: loadSlices, Rows: rows,
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			if callers == 1 {
				s.budget = defaultBudget
			}
			s.open(func() (*decider, error) { return s.newOurs(nameOurs, steady, 1) })
			switch callers {
			case 1:
				s.open(func() (*decider, error) { return s.newBare(s.all[0]) })
			case 64:
				s.open(func() (*decider, error) { return s.newOurs(nameSlow, slowLimit, 1) })
			}
			s.openRivals(steady)
			return s.contenders(callers)
		},
	}
}

// threeRules is one caller whose calls charge three buckets, against one of one.
func threeRules() *harness.Experiment {
	return &harness.Experiment{
		Section: Section, Name: "rules", Metrics: loadMetrics, Slices: loadSlices,
		Rows: []harness.Row{
			{Label: "c1, three rules on one call, p50", Metric: middle, Of: nameRules, Against: nameOurs, Budget: harness.AtMost(1.4)},
			{Label: "c1, three rules on one call, round trips", Metric: trips, Of: nameRules, Budget: harness.AtMost(1)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			s.budget = defaultBudget
			s.open(func() (*decider, error) { return s.newOurs(nameOurs, steady, 1) })
			s.open(func() (*decider, error) { return s.newOurs(nameRules, steady, 3) })
			s.open(func() (*decider, error) { return s.newThrice(steady) })
			return s.contenders(1)
		},
	}
}

// refused is many callers of one key that has nothing left.
func refused() *harness.Experiment {
	return &harness.Experiment{
		Section: Section, Name: "refused", Metrics: loadMetrics, Slices: loadSlices,
		Rows: []harness.Row{
			{Label: "c64, refusals of one hot key a second", Metric: throughput, Of: nameOurs, Against: nameRival, Budget: harness.AtLeast(100)},
			{Label: "c64, refusals of one hot key, round trips each", Metric: trips, Of: nameOurs, Budget: harness.AtMost(0.01)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			s.keys = s.keys[:1]
			s.open(func() (*decider, error) { return s.newOurs(nameOurs, refusing, 1) })
			s.openRivals(refusing)
			return s.contenders(64)
		},
	}
}

// Version tells which server is measured.
func Version() string {
	var program redistest.Program
	defer program.Close()
	info := redistest.Start(&program)
	return "redis-server " + strings.TrimSpace(info.Info("server", "redis_version"))
}
