package backendtest

import (
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
)

// changeChecks change a limit and keep its bucket.
func changeChecks() []check {
	var all []check
	for _, a := range everyAlgorithm {
		all = append(all,
			check{fmt.Sprintf("change/%v keeps what is used when the count changes", a), func(e *env) { e.countChanges(a) }},
			check{fmt.Sprintf("change/%v stores nothing when it refuses", a), func(e *env) { e.refusalKeeps(a) }},
			check{fmt.Sprintf("change/%v tells waits that hold under other numbers", a), func(e *env) { e.waitsHold(a) }})
	}
	for _, a := range levels {
		all = append(all,
			check{fmt.Sprintf("change/%v drains at the rate in force", a), func(e *env) { e.rateChanges(a) }},
			check{fmt.Sprintf("change/%v keeps what is used when the burst passes 2^32", a), func(e *env) { e.stepChanges(a) }})
	}
	return append(all,
		check{"change/another algorithm starts anew", (*env).algorithmChanges},
		check{"change/a fixed window's count is carried into another length", (*env).fixedLength},
		check{"change/a sliding window's counts are carried into another length", (*env).slidingLength},
		check{"change/a log's entries count under another length", (*env).logLength})
}

func (e *env) countChanges(a ratelimit.Algorithm) {
	l := e.limit(a, "10/m", 0)
	e.pass(l, 5)
	to := func(rate string) *ratelimit.Limit { return e.limitOf(l.Bucket(), a, rate, 0) }
	e.leaves(to("100/m"), 95)
	e.leaves(to("5/m"), 0)
	e.refuse(to("3/m"), 1)
	e.leaves(to("3/m"), 0)
	e.leaves(l, 5)
	e.pass(to("100/m"), 95)
	e.refuse(to("100/m"), 1)
	e.refuse(l, 1)
	e.leaves(to("1000/m"), 900)
}

// refusalKeeps refuses under other numbers, and finds the bucket as it was.
func (e *env) refusalKeeps(a ratelimit.Algorithm) {
	l := e.limit(a, "10/m", 0)
	e.pass(l, 6)
	e.clock.advance(sec)
	before := e.one(l, 0)
	for _, rate := range []string{"1/m", "2/10s", "3/h", "1/366d"} {
		other := e.limitOf(l.Bucket(), a, rate, 0)
		if v := e.one(other, 1); v.Allowed {
			e.fail("got %s under %s, want it refused", formatVerdict(v), rate)
		}
		e.one(other, 0)
		e.expect("peek after a refusal under "+rate, e.one(l, 0), before)
	}
}

// waitsHold fills a bucket under one limit and is refused under another: the
// wait told is the shortest that helps, though nothing but time passes.
func (e *env) waitsHold(a ratelimit.Algorithm) {
	for _, rates := range [][2]string{
		{"10/h", "10/m"}, {"10/h", "5/h"}, {"10/m", "9/m"}, {"10/7s", "10/3s"}, {"10/3s", "9/2s"}, {"10/d", "4/s"}, {"10/m", "9/d"},
	} {
		for _, after := range []time.Duration{0, sec, 2999 * ms} {
			e.clock.set(20*mins + 500*ms)
			l := e.limit(a, rates[0], 0)
			e.pass(l, 10)
			e.clock.advance(min(after, l.Window()/10))
			changed := e.limitOf(l.Bucket(), a, rates[1], 0)
			v := e.one(changed, 1)
			if v.Allowed || v.RetryAfter >= e.one(l, 0).ResetAfter {
				continue // after which the bucket may be forgotten
			}
			e.clock.advance(v.RetryAfter - µs)
			e.refuse(changed, 1)
			e.clock.advance(µs)
			e.pass(changed, 1)
		}
	}
}

func (e *env) rateChanges(a ratelimit.Algorithm) {
	l := e.limit(a, "1/s", 10)
	e.pass(l, 10)
	e.clock.advance(2 * sec)
	faster := e.limitOf(l.Bucket(), a, "3/s", 10)
	e.expect("peek at the slow rate", e.one(l, 0), passes(2, 8*sec))
	e.leaves(faster, 6)
	e.pass(faster, 6)
	e.clock.advance(2 * sec)
	e.expect("peek at the slow rate", e.one(l, 0), passes(2, 8*sec))
	e.leaves(e.limitOf(l.Bucket(), a, "1/m", 10), 0)
}

func (e *env) stepChanges(a ratelimit.Algorithm) {
	fine := e.limit(a, "10/s", 1<<32)
	coarse := e.limitOf(fine.Bucket(), a, "10/s", 1<<32+1)
	e.pass(fine, 7)
	e.leaves(coarse, 1<<32-6)
	e.pass(coarse, 3)
	e.expect("peek in fine steps", e.one(fine, 0), passes(1<<32-10, 1*sec))
	e.clock.advance(333333 * µs)
	e.leaves(coarse, 1<<32-6)
	e.leaves(fine, 1<<32-7)
	full := e.limitOf(fine.Bucket(), a, "10/s", ratelimit.MaxCount)
	left := e.one(full, 0).Remaining
	e.pass(full, left)
	e.refuse(fine, 1)
	e.refuse(e.limitOf(fine.Bucket(), a, "10/s", 1), 1)
	e.refuse(full, 1)
}

func (e *env) algorithmChanges() {
	bucket := e.bucket()
	for i, a := range everyAlgorithm {
		l := e.limitOf(bucket, a, "10/s", 0)
		e.leaves(l, 10)
		e.pass(l, int64(i+1))
	}
	for i, a := range everyAlgorithm {
		e.leaves(e.limitOf(bucket, a, "10/s", 0), int64(9-i))
	}
}

func (e *env) fixedLength() {
	l := e.limit(ratelimit.FixedWindow, "10/h", 0)
	minute := e.limitOf(l.Bucket(), ratelimit.FixedWindow, "10/m", 0)
	e.clock.set(30*mins + 10*sec)
	e.pass(l, 5)
	e.clock.set(30*mins + 20*sec)
	e.expect("the minute of the last change", e.one(minute, 0), passes(5, 40*sec))
	e.expect("a cost above what is left", e.one(minute, 6), waits(5, 40*sec, 40*sec))
	e.clock.set(31 * mins)
	e.expect("the minute after", e.one(minute, 0), passes(10, 0))
	e.expect("the hour still", e.one(l, 0), passes(5, 29*mins))
	e.expect("a charge in the minute", e.one(minute, 10), passes(0, mins))
	e.expect("the hour after it", e.one(l, 1), waits(0, 29*mins, 29*mins))
}

func (e *env) slidingLength() {
	l := e.limit(ratelimit.SlidingWindow, "20/h", 0)
	minute := e.limitOf(l.Bucket(), ratelimit.SlidingWindow, "20/m", 0)
	e.pass(l, 8)
	e.clock.set(90 * mins)
	e.expect("half of the hour before", e.one(l, 3), passes(13, 90*mins))
	e.clock.set(90*mins + 15*sec)
	e.expect("the minute of the last change", e.one(minute, 0), passes(13, 105*sec))
	e.clock.set(91*mins + 30*sec)
	e.expect("the minute after", e.one(minute, 0), passes(16, 30*sec))
	e.expect("a charge in it", e.one(minute, 16), passes(0, 90*sec))
	e.clock.set(93 * mins)
	e.expect("two minutes after", e.one(minute, 0), passes(20, 0))
}

func (e *env) logLength() {
	l := e.limit(ratelimit.SlidingLog, "10/h", 0)
	minute := e.limitOf(l.Bucket(), ratelimit.SlidingLog, "10/m", 0)
	e.pass(l, 3)
	e.clock.set(30 * mins)
	e.pass(l, 4)
	e.clock.set(30*mins + 20*sec)
	e.expect("the last minute", e.one(minute, 0), passes(6, 40*sec))
	e.expect("the last hour", e.one(l, 0), passes(3, 3580*sec))
	e.expect("a charge that drops what is older", e.one(minute, 1), passes(5, mins))
	e.expect("the last hour, after it", e.one(l, 0), passes(5, hour))
}
