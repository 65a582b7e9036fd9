package backendtest

import (
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

// demands are what a bucket is asked for, and how much of it passes, the quick
// ones first. A sliding window rounds up what the window before still counts,
// and so grants less.
var demands = []struct {
	name               string
	rate               string
	total, interval    time.Duration
	low, high          int
	lowInSlidingWindow int
}{
	{"counts no refused call", "2/4s", mins, sec, 29, 32, 15},
	{"grants 1 per 10 s for 10 min", "1/10s", 10 * mins, 100 * ms, 59, 61, 30},
	{"grants 7 per 3 s for 3000 s", "7/3s", 3000 * sec, 250 * ms, 7000, 7007, 5500},
}

// demandChecks poll a bucket for more than it grants, and count.
func demandChecks() []check {
	var all []check
	for _, d := range demands {
		for _, a := range everyAlgorithm {
			low := d.low
			if a == ratelimit.SlidingWindow {
				low = d.lowInSlidingWindow
			}
			all = append(all, check{fmt.Sprintf("demand/%v %s", a, d.name), func(e *env) {
				if granted := e.demand(a, d.rate, d.total, d.interval); granted < low || granted > d.high {
					e.fail("granted %d, want %d to %d", granted, low, d.high)
				}
			}})
		}
	}
	return all
}

// demand calls each interval, for so long, and returns how many calls passed.
// It fails where any two windows in a row passed more than twice the count and
// what the algorithm may add.
func (e *env) demand(a ratelimit.Algorithm, rate string, total, interval time.Duration) int {
	e.Helper()
	l := e.limit(a, rate, 0)
	var passed []time.Duration
	for at := time.Duration(0); at < total; at += interval {
		e.clock.set(at)
		if !e.one(l, 1).Allowed {
			continue
		}
		passed = append(passed, at)
		if n := len(passed) - most(l); n > 0 && at-passed[n-1] < l.Window() {
			e.fail("granted %d in %v, want at most %d in less than %v", most(l)+1, at-passed[n-1], most(l), l.Window())
		}
	}
	return len(passed)
}

// most returns how many calls of cost 1 any window of l's length, closed at one
// end, passes at most.
func most(l *ratelimit.Limit) int {
	n := int(l.Rate().Count)
	switch l.Algorithm() {
	case ratelimit.TokenBucket, ratelimit.LeakyBucket:
		return int(l.Most()) + n
	case ratelimit.FixedWindow, ratelimit.SlidingWindow:
		return 2 * n
	}
	return n
}
