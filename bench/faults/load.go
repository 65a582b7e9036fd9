package faults

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
)

const (
	// callers decide side by side, each one once in callEvery: 4,000 decisions a
	// second in all, evenly spread. callEvery is longer than a decision may take, so
	// that no call waits for the one before.
	callers   = 64
	callEvery = 16 * time.Millisecond
	// users are whom they decide on: each one once a second.
	users = 4000
	// aLag is what makes a call one that began late: a timer is up to 1 ms late by
	// itself.
	aLag = 2 * time.Millisecond
)

// A load is callers who decide by a schedule, whatever becomes of the calls before.
type load struct {
	backend ratelimit.Backend
	limit   *ratelimit.Limit
	keys    [][]byte
	callers []caller
	stop    atomic.Bool
	running sync.WaitGroup
	began   time.Time
}

// A caller is one of them.
type caller struct {
	took []time.Duration // by its decisions, each from its call
	due  []time.Duration // the same, from when the call was due
	late int             // calls that were made more than aLag after they were due
	err  error
}

func newLoad(backend ratelimit.Backend) (*load, error) {
	// Grants all, and drains too slowly for a grant of the fallback to be forgotten.
	limit, err := ratelimit.NewLimit("api", ratelimit.Rule{Rate: ratelimit.Rate{Count: 1, Window: time.Minute}, Burst: 1_000_000})
	if err != nil {
		return nil, err
	}
	l := &load{backend: backend, limit: limit, callers: make([]caller, callers), keys: make([][]byte, users)}
	for i := range l.keys {
		l.keys[i] = goredis.Key(goredis.Text(fmt.Sprintf("user-%019d", i)))
	}
	for i := range l.callers {
		c := &l.callers[i]
		c.took, c.due = make([]time.Duration, 0, 1024), make([]time.Duration, 0, 1024)
	}
	return l, nil
}

// start has all callers decide until end is called.
func (l *load) start() {
	l.began = time.Now()
	for i := range l.callers {
		first := l.began.Add(callEvery * time.Duration(i) / callers)
		l.running.Go(func() { l.callers[i].run(l, i, first) })
	}
}

func (l *load) end() {
	l.stop.Store(true)
	l.running.Wait()
}

func (c *caller) run(l *load, number int, first time.Time) {
	charges := []ratelimit.Charge{{Limit: l.limit, Cost: 1}}
	verdicts := make([]ratelimit.Verdict, 1)
	for n := 0; !l.stop.Load(); n++ {
		due := first.Add(time.Duration(n) * callEvery)
		time.Sleep(time.Until(due))
		charges[0].Key = l.keys[(n*callers+number)%users]
		begin := time.Now()
		err := l.backend.Take(context.Background(), charges, verdicts)
		end := time.Now()
		if err == nil && !verdicts[0].Allowed {
			err = fmt.Errorf("a decision is %+v, want it granted", verdicts[0])
		}
		if err != nil {
			c.err = err
		}
		if begin.Sub(due) > aLag {
			c.late++
		}
		c.took, c.due = append(c.took, end.Sub(begin)), append(c.due, end.Sub(due))
	}
}

// measures are what a load found.
type measures struct {
	took, due []time.Duration // in order
	late      float64         // a share
	perSecond float64
}

// measure returns what was found, or the error of a decision.
func (l *load) measure() (*measures, error) {
	m := &measures{}
	late, longest := 0, time.Since(l.began)
	for i := range l.callers {
		c := &l.callers[i]
		if c.err != nil {
			return nil, c.err
		}
		m.took, m.due, late = append(m.took, c.took...), append(m.due, c.due...), late+c.late
	}
	slices.Sort(m.took)
	slices.Sort(m.due)
	m.late = float64(late) / float64(len(m.took))
	m.perSecond = float64(len(m.took)) / longest.Seconds()
	return m, nil
}

// quantile returns a quantile of times in order, in ms.
func quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return math.NaN()
	}
	return in(times[int(math.Ceil(q*float64(len(times))))-1])
}
