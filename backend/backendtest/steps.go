package backendtest

import (
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

const (
	µs   = time.Microsecond
	ms   = time.Millisecond
	sec  = time.Second
	mins = time.Minute
	hour = time.Hour
	day  = 24 * time.Hour
	week = 7 * day
)

// everyAlgorithm is what a backend has to offer.
var everyAlgorithm = []ratelimit.Algorithm{
	ratelimit.TokenBucket, ratelimit.LeakyBucket, ratelimit.FixedWindow, ratelimit.SlidingWindow, ratelimit.SlidingLog,
}

// A table is one bucket's life: calls at explicit instants and their answers.
type table struct {
	name       string
	algorithms []ratelimit.Algorithm
	rate       string
	burst      int64
	steps      []step
}

// A step is one call of one charge.
type step struct {
	at   time.Duration // since the epoch
	cost int64
	want ratelimit.Verdict
}

func stepChecks() []check {
	var all []check
	for _, tables := range [][]table{levelTables, windowTables, slidingTables, logTables} {
		for _, t := range tables {
			for _, a := range t.algorithms {
				all = append(all, check{
					name: fmt.Sprintf("steps/%v %s", a, t.name),
					run:  func(e *env) { e.walk(a, t) },
				})
			}
		}
	}
	return all
}

// walk makes the calls of t.
func (e *env) walk(a ratelimit.Algorithm, t table) {
	e.Helper()
	l := e.limit(a, t.rate, t.burst)
	for i, s := range t.steps {
		e.clock.set(s.at)
		e.expect(fmt.Sprintf("step %d", i), e.one(l, s.cost), s.want)
	}
}

var levels = []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.LeakyBucket}

var levelTables = []table{
	{"grants the burst, then the rate", levels, "10/s", 3, []step{
		{0, 1, passes(2, 100*ms)},
		{0, 1, passes(1, 200*ms)},
		{0, 1, passes(0, 300*ms)},
		{0, 1, waits(0, 100*ms, 300*ms)},
		{100*ms - µs, 1, waits(0, 1*µs, 200*ms+µs)},
		{100 * ms, 1, passes(0, 300*ms)},
		{100 * ms, 2, waits(0, 200*ms, 300*ms)},
		{300 * ms, 2, passes(0, 300*ms)},
		{600*ms - µs, 0, passes(2, 1*µs)},
		{600 * ms, 0, passes(3, 0)},
		{hour, 3, passes(0, 300*ms)},
	}},
	{"counts fractions of a unit as used", levels, "10/s", 2, []step{
		{0, 2, passes(0, 200*ms)},
		{50 * ms, 0, passes(0, 150*ms)},
		{50 * ms, 1, waits(0, 50*ms, 150*ms)},
		{150 * ms, 1, passes(0, 150*ms)},
		{299 * ms, 0, passes(1, 1*ms)},
	}},
	{"rounds waits up", levels, "7/3s", 7, []step{
		// A unit takes 3000000/7 = 428571.43 µs.
		{0, 7, passes(0, 3*sec)},
		{0, 1, waits(0, 428572*µs, 3*sec)},
		{0, 2, waits(0, 857143*µs, 3*sec)},
		{428571 * µs, 1, waits(0, 1*µs, 2571429*µs)},
		{428572 * µs, 1, passes(0, 3*sec)},
		{857142 * µs, 1, waits(0, 2*µs, 2571430*µs)},
		{857143 * µs, 1, waits(0, 1*µs, 2571429*µs)},
		{857144 * µs, 1, passes(0, 3*sec)},
	}},
	{"takes costs above one", levels, "5/s", 10, []step{
		{0, 4, passes(6, 800*ms)},
		{0, 7, waits(6, 200*ms, 800*ms)},
		{0, 6, passes(0, 2*sec)},
		{1 * sec, 10, waits(5, 1*sec, 1*sec)},
		{1 * sec, 11, never(5, 1*sec)},
		{1 * sec, 5, passes(0, 2*sec)},
	}},
	{"lets one per ten seconds through", levels, "1/10s", 0, []step{
		{0, 1, passes(0, 10*sec)},
		{9999999 * µs, 1, waits(0, 1*µs, 1*µs)},
		{10 * sec, 1, passes(0, 10*sec)},
		{15 * sec, 1, waits(0, 5*sec, 5*sec)},
	}},
	{"gives nothing for a clock that steps back", levels, "10/s", 2, []step{
		{0, 2, passes(0, 200*ms)},
		{0, 1, waits(0, 100*ms, 200*ms)},
		{100 * ms, 1, passes(0, 200*ms)},
		{50 * ms, 1, waits(0, 100*ms, 200*ms)},
		{-hour, 1, waits(0, 100*ms, 200*ms)},
		{200 * ms, 1, passes(0, 200*ms)},
	}},
	{"drains from the instant that a grant stored, also an earlier one", levels, "10/s", 2, []step{
		{hour, 1, passes(1, 100*ms)},
		{0, 1, passes(0, 200*ms)},
		{100 * ms, 1, passes(0, 200*ms)},
	}},
}
