package backendtest

import (
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

// year is the longest window.
const year = ratelimit.MaxWindow

// rangeChecks are about clocks and numbers at the ends of their ranges.
func rangeChecks() []check {
	var all []check
	for _, a := range everyAlgorithm {
		all = append(all,
			check{fmt.Sprintf("ranges/%v is empty after 400 idle days", a), func(e *env) { e.idle(a) }},
			check{fmt.Sprintf("ranges/%v takes fractions of a microsecond for none", a), func(e *env) { e.fractions(a) }},
			check{fmt.Sprintf("ranges/%v survives clocks that step far back", a), func(e *env) { e.stepsBack(a) }},
			check{fmt.Sprintf("ranges/%v grants one a year", a), func(e *env) { e.onePerYear(a) }})
		if a != ratelimit.SlidingLog {
			all = append(all, check{fmt.Sprintf("ranges/%v counts to the ends", a), func(e *env) { e.largest(a) }})
		}
	}
	for _, a := range levels {
		all = append(all,
			check{fmt.Sprintf("ranges/%v grants a billion a second", a), func(e *env) { e.fastest(a) }},
			check{fmt.Sprintf("ranges/%v tells the longest wait", a), func(e *env) { e.longestWait(a) }})
	}
	return all
}

func (e *env) idle(a ratelimit.Algorithm) {
	rates := []string{"10/s", "1000/ms", "10000/d", "1/366d"}
	if a != ratelimit.SlidingLog {
		rates = append(rates, "1000000000/s", "1000000/ms", "1000000000000/1000s")
	}
	for _, rate := range rates {
		e.clock.set(0)
		l := e.limit(a, rate, 0)
		for range 3 {
			if v := e.pass(l, l.Most()); v.Remaining != 0 || v.ResetAfter <= 0 {
				e.fail("got %s, want remaining 0 and a time to reset", formatVerdict(v))
			}
			e.refuse(l, 1)
			e.clock.advance(2 * 400 * day)
			e.expect("peek after idle days", e.one(l, 0), passes(l.Most(), 0))
		}
	}
}

// fractions moves the clock by less than a microsecond.
func (e *env) fractions(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	e.clock.set(999)
	e.pass(l, 10)
	want := e.refuse(l, 1)
	e.clock.set(0)
	e.expect("999 ns earlier", e.one(l, 1), want)
	e.clock.set(want.RetryAfter - time.Nanosecond)
	e.refuse(l, 1)
	e.clock.set(want.RetryAfter)
	e.pass(l, 1)
}

func (e *env) stepsBack(a ratelimit.Algorithm) {
	for _, back := range []time.Duration{µs, ms, sec, day, 400 * day, 40 * year} {
		e.clock.set(400 * day)
		l := e.limit(a, "5/s", 0)
		e.pass(l, 5)
		e.clock.advance(-back)
		v := e.refuse(l, 1)
		if v.Remaining != 0 || v.RetryAfter > 2*sec || v.ResetAfter > 2*sec {
			e.fail("after a step back by %v: got %s, want remaining 0 and waits of no more than two windows", back, formatVerdict(v))
		}
		e.clock.set(402 * day)
		e.pass(l, 5)
		e.refuse(l, 1)
	}
}

func (e *env) onePerYear(a ratelimit.Algorithm) {
	l := e.limit(a, "1/366d", 0)
	e.pass(l, 1)
	v := e.refuse(l, 1)
	if v.RetryAfter <= 0 || v.RetryAfter > 2*year {
		e.fail("got %s, want a wait of at most two windows", formatVerdict(v))
	}
	e.clock.advance(v.RetryAfter - µs)
	e.expect("one microsecond before", e.refuse(l, 1), waits(0, µs, v.ResetAfter-v.RetryAfter+µs))
	e.clock.advance(µs)
	e.pass(l, 1)
}

// largest takes the largest count by the largest costs.
func (e *env) largest(a ratelimit.Algorithm) {
	const cost = 1<<31 - 1
	for _, rate := range []string{"1000000000000/1000s", "1000000000000/366d"} {
		l := e.limit(a, rate, 0)
		left := l.Most()
		for range 3 {
			if v := e.pass(l, cost); v.Remaining != left-cost {
				e.fail("got %s, want remaining %d", formatVerdict(v), left-cost)
			}
			left -= cost
		}
		e.refuse(l, left+1)
		e.pass(l, left)
		e.refuse(l, 1)
		v := e.one(l, cost)
		e.clock.advance(v.RetryAfter - µs)
		e.refuse(l, cost)
		e.clock.advance(µs)
		e.pass(l, cost)
	}
}

func (e *env) fastest(a ratelimit.Algorithm) {
	for _, rate := range []string{"1000000000/s", "1000000/ms", "999999937/s"} {
		l := e.limit(a, rate, 1000)
		e.expect("all at once", e.one(l, 1000), passes(0, e.drain(l, 1000)))
		e.expect("one more", e.one(l, 1), waits(0, µs, e.drain(l, 1000)))
		e.clock.advance(µs)
		if v := e.one(l, 0); v.Remaining < 999 {
			e.fail("after a microsecond: got %s, want remaining 999 or more", formatVerdict(v))
		}
		e.pass(l, 999)
	}
}

// drain returns how long units take to drain, rounded up.
func (e *env) drain(l *ratelimit.Limit, units int64) time.Duration {
	return time.Duration(scaled(units, l.Window().Microseconds(), l.Rate().Count, true)) * µs
}

func (e *env) longestWait(a ratelimit.Algorithm) {
	l := e.limit(a, "1/366d", ratelimit.MaxCount)
	e.expect("all at once", e.one(l, ratelimit.MaxCount), passes(0, ratelimit.MaxWait))
	e.expect("one more", e.one(l, 1), waits(0, year, ratelimit.MaxWait))
	e.expect("all again", e.one(l, ratelimit.MaxCount), waits(0, ratelimit.MaxWait, ratelimit.MaxWait))
	e.expect("above the burst", e.one(l, ratelimit.MaxCount+1), never(0, ratelimit.MaxWait))
	e.clock.advance(year)
	e.expect("after a year", e.one(l, 1), passes(0, ratelimit.MaxWait))
}
