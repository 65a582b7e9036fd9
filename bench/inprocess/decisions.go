package inprocess

import (
	"fmt"

	"github.com/protolimit/ratelimit/bench/harness"
)

// Section is the table of these experiments.
const Section = "inprocess"

// The metrics of decisions.
const (
	oneCaller   = "1 goroutine"
	twoCallers  = "2 goroutines"
	allocations = "allocations"
)

var decisionMetrics = []harness.Metric{{Name: oneCaller, Unit: "ns"}, {Name: twoCallers, Unit: "ns"}, {Name: allocations}}

// hotSlices is how many short slices make a figure where the state is in the
// cache, and coldSlices where it is not.
const (
	hotSlices  = 12
	coldSlices = 2
)

// Experiments are all that is measured in the process.
func Experiments() []*harness.Experiment {
	return []*harness.Experiment{
		hot("hot", "one hot key", hotLimit, harness.AtMost(1.5), harness.AtMost(1.8)),
		hot("refused", "one hot key, refused", refusing, harness.Budget{}, harness.Budget{}),
		cold("uniform", "1M keys uniform", keys.uniform, harness.AtMost(1.7), harness.AtMost(2.0)),
		cold("zipf", "1M keys Zipf", keys.zipf, harness.AtMost(1.6), harness.AtMost(1.8)),
		threeRules(),
		memoryUse(),
		worstFill(),
		reuse(),
		served(),
		refused(),
	}
}

// decisionRows are the rows of ours against the floor.
func decisionRows(label string, one, two harness.Budget) []harness.Row {
	return []harness.Row{
		{Label: label + ", 1 goroutine", Metric: oneCaller, Of: nameOurs, Against: nameFloor, Budget: one},
		{Label: label + ", 2 goroutines", Metric: twoCallers, Of: nameOurs, Against: nameFloor, Budget: two},
		{Label: label + ", allocations", Metric: allocations, Of: nameOurs, Budget: harness.AtMost(0)},
	}
}

// hot is one key, asked again and again.
func hot(name, label string, l limit, one, two harness.Budget) *harness.Experiment {
	return &harness.Experiment{
		Name: name, Section: Section, Metrics: decisionMetrics, Slices: hotSlices,
		Rows: decisionRows("keyed, "+label, one, two),
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			all, err := contestants(l, 1)
			if err != nil {
				return nil, nil, err
			}
			key := newKeys(1, 1)
			return compete(all, key, key, o.Hot)
		},
	}
}

// cold is many keys, all of them known.
func cold(name, label string, draw func(keys, int) keys, one, two harness.Budget) *harness.Experiment {
	return &harness.Experiment{
		Name: name, Section: Section, Metrics: decisionMetrics, Slices: coldSlices,
		Rows: decisionRows("keyed, "+label, one, two),
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			all, err := contestants(coldLimit, o.Keys)
			if err != nil {
				return nil, nil, err
			}
			known := newKeys(o.Keys, 1)
			return compete(all, known, draw(known, min(traceLength, 4*o.Keys)), o.Cold)
		},
	}
}

// compete fills deciders with keys, and returns contenders that decide for the
// keys of a trace.
func compete(all []*decider, known, trace keys, slice harness.Slice) ([]harness.Contender, func(), error) {
	contenders := make([]harness.Contender, len(all))
	for i, d := range all {
		if _, err := fill(d, known); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.name, err)
		}
		var workers []harness.Batch
		for _, c := range trace.cursors(3) {
			workers = append(workers, d.worker(c))
		}
		contenders[i] = harness.Contender{Name: d.name, Sample: func() ([]float64, error) {
			one, objects, err := harness.Time(slice, workers[0])
			if err != nil {
				return nil, err
			}
			two, _, err := harness.Time(slice, workers[1:]...)
			return []float64{one, two, objects}, err
		}}
	}
	return contenders, func() {
		for _, d := range all {
			d.close()
		}
	}, nil
}

// threeRules is a call that charges three buckets, against one of one.
func threeRules() *harness.Experiment {
	const one, three = "one rule", "three rules"
	return &harness.Experiment{
		Name: "rules", Section: Section, Metrics: decisionMetrics, Slices: hotSlices,
		Rows: []harness.Row{
			{Label: "three rules on one call, 1 goroutine", Metric: oneCaller, Of: three, Against: one, Budget: harness.AtMost(3.2)},
			{Label: "three rules on one call, 2 goroutines", Metric: twoCallers, Of: three, Against: one, Budget: harness.AtMost(3.2)},
			{Label: "three rules on one call, allocations", Metric: allocations, Of: three, Budget: harness.AtMost(0)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			first, err := newOurs(hotLimit, 1, 1)
			if err != nil {
				return nil, nil, err
			}
			second, err := newOurs(hotLimit, 1, 3)
			if err != nil {
				return nil, nil, err
			}
			first.name, second.name = one, three
			key := newKeys(1, 1)
			return compete([]*decider{first, second}, key, key, o.Hot)
		},
	}
}
