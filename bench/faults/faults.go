// Package faults measures how long decisions take while Redis fails: the whole of
// what a service has, backend/goredis in a breaker with backend/memory behind it,
// all with their defaults, on real servers that are killed, stopped and cut off.
package faults

import (
	"time"

	"github.com/protolimit/ratelimit/bench/harness"
)

// Section is the table of these experiments.
const Section = "faults"

// The metrics of callers through a fault.
const (
	middle   = "p50"
	high     = "p99"
	tail     = "p99.9"
	worst    = "worst"
	sinceDue = "p99.9 since due"
	late     = "begun late"
	local    = "by the fallback"
	pace     = "decisions a second"
)

var metrics = []harness.Metric{
	{Name: middle, Unit: "µs"},
	{Name: high, Unit: "ms"},
	{Name: tail, Unit: "ms"},
	{Name: worst, Unit: "ms"},
	{Name: sinceDue, Unit: "ms"},
	{Name: late, Unit: "%"},
	{Name: local, Unit: "%"},
	{Name: pace},
}

const (
	nameOurs = "ours"

	// aim is what 999 of 1,000 decisions may take, in ms: the default budget, and 5.
	aim = 15
	// mostRounds is in how many rounds faults are measured: a round of all takes
	// more than a minute.
	mostRounds = 3
)

// Experiments are all faults, and none of them.
func Experiments() []*harness.Experiment {
	all := faults()
	experiments := make([]*harness.Experiment, len(all))
	for i := range all {
		experiments[i] = all[i].experiment()
	}
	return experiments
}

// experiment is callers through the fault. Each sample has servers of its own.
func (f *fault) experiment() *harness.Experiment {
	return &harness.Experiment{
		Section: Section, Name: f.name, Metrics: metrics, Most: mostRounds,
		Rows: []harness.Row{
			{Label: f.name + ", " + tail, Metric: tail, Of: nameOurs, Budget: harness.AtMost(aim)},
			{Label: f.name + ", " + worst, Metric: worst, Of: nameOurs, Fold: harness.Max},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			sample := func() ([]float64, error) { return f.sample(o.Phase) }
			return []harness.Contender{{Name: nameOurs, Sample: sample}}, func() {}, nil
		},
	}
}

// in returns a time in ms.
func in(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
