package harness

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A Result is what an experiment measured.
type Result struct {
	Experiment *Experiment
	Contenders []string
	Took       time.Duration

	values map[string][][]float64 // contender -> metric -> round
}

// Run measures an experiment. Each round measures every contender; which comes
// first moves from slice to slice.
func Run(e *Experiment, o Options) (*Result, error) {
	start := time.Now()
	contenders, done, err := e.Open(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.ID(), err)
	}
	defer done()
	r := &Result{Experiment: e, values: map[string][][]float64{}}
	for _, c := range contenders {
		r.Contenders = append(r.Contenders, c.Name)
		r.values[c.Name] = make([][]float64, len(e.Metrics))
	}
	runtime.GC() // what Open left is nobody's cost
	rounds, turn := o.Rounds, 0
	if e.Most > 0 {
		rounds = min(rounds, e.Most)
	}
	for range rounds {
		round := make([][][]float64, len(contenders)) // contender, metric, slice
		for range max(e.Slices, 1) {
			for i := range contenders {
				at := (turn + i) % len(contenders)
				sample, err := contenders[at].Sample()
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", e.ID(), contenders[at].Name, err)
				}
				round[at] = appendSample(round[at], sample, len(e.Metrics))
			}
			turn++
		}
		for i, c := range contenders {
			for m, slice := range round[i] {
				r.values[c.Name][m] = append(r.values[c.Name][m], Median(slice))
			}
		}
	}
	r.Took = time.Since(start)
	return r, nil
}

// appendSample adds a sample to the slices of each metric.
func appendSample(perMetric [][]float64, sample []float64, metrics int) [][]float64 {
	if perMetric == nil {
		perMetric = make([][]float64, metrics)
	}
	for m := range perMetric {
		perMetric[m] = append(perMetric[m], sample[m])
	}
	return perMetric
}

// metric returns the place of a metric, and panics if there is none: rows and
// metrics are constants of one file.
func (e *Experiment) metric(name string) int {
	i := slices.IndexFunc(e.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		panic("harness: experiment " + e.ID() + " has no metric " + name)
	}
	return i
}

// rounds returns a contender's values of a metric, one a round; nil if the
// contender is not there.
func (r *Result) rounds(contender, metric string) []float64 {
	m := r.Experiment.metric(metric)
	if perMetric := r.values[contender]; perMetric != nil {
		return perMetric[m]
	}
	return nil
}
