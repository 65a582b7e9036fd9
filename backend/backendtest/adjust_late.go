package backendtest

import (
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

// lateChecks give charges back when time has passed.
func lateChecks() []check {
	all := []check{
		{"late/a log gives back an entry until it is gone", (*env).lateLog},
		{"late/a log gives back its newest entries when all are gone", (*env).lateEntries},
		{"late/a window gives back until it ends", (*env).lateFixed},
		{"late/a sliding window gives back until the next one ends", (*env).lateSliding},
		{"late/windows give nothing back across a change of length", (*env).lateLength},
	}
	for _, a := range levels {
		all = append(all,
			check{fmt.Sprintf("late/%v hands out nothing", a), func(e *env) { e.lateLevel(a) }},
			check{fmt.Sprintf("late/%v gives back what still counts", a), func(e *env) { e.lateLevelPart(a) }})
	}
	for _, a := range everyAlgorithm {
		all = append(all, check{fmt.Sprintf("late/%v never makes room that the charge did not take", a), func(e *env) { e.neverMoreRoom(a) }})
	}
	return all
}

func (e *env) lateLevel(a ratelimit.Algorithm) {
	l := e.limit(a, "1/s", 10)
	first := e.pass(l, 10)
	e.clock.advance(10 * sec)
	e.pass(l, 10)
	e.adjust(delta(charge(l, 10), first, -10))
	e.leaves(l, 0)
	e.expect("a charge after a late refund", e.one(l, 1), waits(0, 1*sec, 10*sec))
}

func (e *env) lateLevelPart(a ratelimit.Algorithm) {
	l := e.limit(a, "1/s", 10)
	first := e.pass(l, 10)
	e.clock.advance(4 * sec)
	e.pass(l, 4)
	e.adjust(delta(charge(l, 10), first, -10))
	e.expect("peek", e.one(l, 0), passes(6, 4*sec))
}

func (e *env) lateLog() {
	l := e.limit(ratelimit.SlidingLog, "10/10s", 0)
	first := e.pass(l, 4)
	e.clock.advance(6 * sec)
	second := e.pass(l, 6)
	e.adjust(delta(charge(l, 4), first, -1))
	e.leaves(l, 1)
	e.clock.advance(4 * sec)
	e.leaves(l, 4)
	e.adjust(delta(charge(l, 4), first, -4))
	e.leaves(l, 4)
	e.adjust(delta(charge(l, 6), second, -6))
	e.expect("peek", e.one(l, 0), passes(10, 0))
}

// lateEntries gives a log's newest entries back until what is left of it is an entry
// that was given back before and has left the window since.
func (e *env) lateEntries() {
	l := e.limit(ratelimit.SlidingLog, "10/10s", 0)
	first := e.pass(l, 1)
	e.clock.advance(2 * sec)
	second := e.pass(l, 1)
	e.adjust(delta(charge(l, 1), first, -1))
	e.clock.advance(9 * sec)
	e.adjust(delta(charge(l, 1), second, -1))
	e.expect("peek", e.one(l, 0), passes(10, 0))
	e.pass(l, 10)
	e.leaves(l, 0)
}

func (e *env) lateFixed() {
	l := e.limit(ratelimit.FixedWindow, "10/10s", 0)
	first := e.pass(l, 4)
	e.clock.set(10*sec - µs)
	second := e.pass(l, 5)
	e.adjust(delta(charge(l, 4), first, -4))
	e.leaves(l, 5)
	e.clock.set(10 * sec)
	e.pass(l, 8)
	e.adjust(delta(charge(l, 5), second, -5))
	e.leaves(l, 2)
}

func (e *env) lateSliding() {
	l := e.limit(ratelimit.SlidingWindow, "10/10s", 0)
	first := e.pass(l, 4)
	e.clock.set(10 * sec)
	second := e.pass(l, 2)
	e.leaves(l, 4)
	e.adjust(delta(charge(l, 4), first, -3))
	e.leaves(l, 7)
	e.clock.set(20 * sec)
	e.pass(l, 1)
	e.adjust(delta(charge(l, 1), first, -1))
	e.leaves(l, 7)
	e.adjust(delta(charge(l, 2), second, -2))
	e.leaves(l, 9)
}

func (e *env) lateLength() {
	for _, a := range []ratelimit.Algorithm{ratelimit.FixedWindow, ratelimit.SlidingWindow} {
		e.clock.set(0)
		l := e.limit(a, "10/h", 0)
		v := e.pass(l, 4)
		shorter := e.limitOf(l.Bucket(), a, "10/m", 0)
		e.adjust(delta(charge(shorter, 4), v, -4))
		e.leaves(shorter, 6)
		e.clock.set(hour / 2)
		e.pass(shorter, 5)
		e.adjust(delta(charge(l, 4), v, -4))
		e.leaves(shorter, 5)
	}
}

// neverMoreRoom lives two lives of a bucket: one with a charge that is given
// back in the end, and one without it. The first never has more left.
func (e *env) neverMoreRoom(a ratelimit.Algorithm) {
	r := random(e.cfg.seed, uint64(a))
	for round := range 60 {
		e.clock.set(0)
		rate, burst := pick(r, "10/s", "7/3s", "20/m", "1000/s"), int64(1+r.IntN(40))
		with, without := e.limit(a, rate, burst), e.limit(a, rate, burst)
		step := with.Window().Microseconds() / int64(2+r.IntN(20))
		for range r.IntN(10) {
			e.inBoth(with, without, 1+r.Int64N(with.Most()))
			e.clock.advance(time.Duration(r.Int64N(step)) * µs)
		}
		cost := 1 + r.Int64N(with.Most())
		v := e.one(with, cost)
		if !v.Allowed {
			continue
		}
		for range r.IntN(10) {
			e.clock.advance(time.Duration(r.Int64N(step)) * µs)
			e.inBoth(with, without, 1+r.Int64N(with.Most()))
		}
		e.adjust(delta(charge(with, cost), v, -1-r.Int64N(cost)))
		for range 10 {
			got, most := e.one(with, 0), e.one(without, 0)
			if got.Remaining > most.Remaining {
				e.fail("round %d of WithSeed(%d): remaining %d after a charge of %d was given back, and %d had it never been made",
					round, e.cfg.seed, got.Remaining, cost, most.Remaining)
			}
			e.clock.advance(time.Duration(r.Int64N(step)) * µs)
		}
	}
}

// inBoth charges cost to both buckets if the first has room.
func (e *env) inBoth(with, without *ratelimit.Limit, cost int64) {
	e.Helper()
	if e.one(with, cost).Allowed && !e.one(without, cost).Allowed {
		e.fail("a bucket with a charge more had room, and the other one had none")
	}
}
