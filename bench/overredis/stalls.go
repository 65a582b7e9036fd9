package overredis

import (
	"time"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

const (
	tail   = "p99.9"
	worst  = "worst"
	failed = "without an answer"

	nameQuiet = "ours, no stalls"

	// A stall is how long the server is stopped, and stallEvery how often.
	stall      = 50 * time.Millisecond
	stallEvery = 250 * time.Millisecond
	// stallsPerSample is how many stalls a sample has.
	stallsPerSample = 4
)

// stalls is callers of a server that is stopped again and again, under the
// default budget.
func stalls() *harness.Experiment {
	row := func(metric string) harness.Row {
		return harness.Row{Label: "c64, the server stopped 50 of 250 ms, " + metric, Metric: metric, Of: nameOurs}
	}
	return &harness.Experiment{
		Section: Section, Name: "stalls",
		Metrics: []harness.Metric{
			{Name: middle, Unit: "µs"}, {Name: slow, Unit: "µs"}, {Name: tail, Unit: "µs"}, {Name: worst, Unit: "µs"}, {Name: failed, Unit: "%"},
		},
		Rows: []harness.Row{row(middle), row(slow), row(tail), row(worst), row(failed)},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			s.open(s.newDefault)
			s.open(func() (*decider, error) { return s.newRival(&rivals.OverRedis[0], steady) })
			if s.err != nil {
				s.done()
				return nil, nil, s.err
			}
			l := newLoad(64, len(s.keys))
			count := stallsPerSample
			if o.Busy < stall {
				count = 1
			}
			contender := func(name string, d *decider, stalled bool) harness.Contender {
				return harness.Contender{Name: name, Sample: func() ([]float64, error) { return l.stalled(d, count, stalled), nil }}
			}
			return []harness.Contender{
				contender(nameOurs, s.all[0], true), contender(nameQuiet, s.all[0], false), contender(nameRival, s.all[1], true),
			}, s.done, nil
		},
	}
}

// newDefault returns the backend as it is without options. Keys are filled
// through another, whose budget holds.
func (s *stage) newDefault() (*decider, error) {
	filled, err := s.newOurs(nameOurs, steady, 1)
	if err != nil {
		return nil, err
	}
	d, err := s.newOursWith(filled.client, steady, shortBucket, 1)
	if err != nil {
		return nil, err
	}
	d.server = filled.server
	free := d.close
	d.close = func() {
		free()
		filled.close()
	}
	return d, nil
}

// stalled measures the metrics of stalls.
func (l *load) stalled(d *decider, count int, stalled bool) []float64 {
	l.run(d, stall) // a warm-up
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range count {
			time.Sleep(stallEvery - stall)
			if stalled {
				d.server.Pause()
			}
			time.Sleep(stall)
			if stalled {
				d.server.Resume()
			}
		}
	}()
	l.run(d, time.Duration(count)*stallEvery)
	<-done
	var longest time.Duration
	decisions, unexpected := 0, 0
	for i := range l.callers {
		longest = max(longest, l.callers[i].longest)
		decisions += l.callers[i].decisions
		unexpected += l.callers[i].unexpected
	}
	laps := l.laps()
	return []float64{
		quantile(laps, 0.5), quantile(laps, 0.99), quantile(laps, 0.999),
		float64(longest.Nanoseconds()) / 1e3, 100 * float64(unexpected) / float64(decisions),
	}
}
