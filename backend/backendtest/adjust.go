package backendtest

import (
	"fmt"
	"math"

	"github.com/protolimit/ratelimit"
)

// adjustChecks change afterwards what charges cost, within their window.
func adjustChecks() []check {
	var all []check
	for _, a := range everyAlgorithm {
		for _, c := range []struct {
			name string
			run  func(e *env, a ratelimit.Algorithm)
		}{
			{"gives a charge back, whole", (*env).giveBackAll},
			{"gives a charge back, in part", (*env).giveBackPart},
			{"gives back at most the cost", (*env).giveBackCost},
			{"gives back one charge of several", (*env).giveBackOne},
			{"charges more, into debt", (*env).chargeMore},
			{"gives nothing back without a receipt", (*env).noReceipt},
			{"charges more without a receipt", (*env).moreWithoutReceipt},
			{"changes nothing by 0", (*env).changeByZero},
			{"takes several changes in a call", (*env).severalChanges},
			{"takes changes at the ends of the range", (*env).hugeChanges},
			{"gives back under other numbers", (*env).giveBackChanged},
			{"gives a charge back after the clock stepped back", (*env).giveBackEarlier},
		} {
			all = append(all, check{fmt.Sprintf("adjust/%v %s", a, c.name), func(e *env) { c.run(e, a) }})
		}
	}
	return all
}

func (e *env) giveBackAll(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 7)
	e.adjust(delta(charge(l, 7), v, -7))
	e.expect("peek after all was given back", e.one(l, 0), passes(10, 0))
	e.pass(l, 10)
}

func (e *env) giveBackPart(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 7)
	e.adjust(delta(charge(l, 7), v, -4))
	e.leaves(l, 7)
	e.adjust(delta(charge(l, 3), v, -2))
	e.leaves(l, 9)
}

func (e *env) giveBackCost(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	e.pass(l, 5)
	v := e.pass(l, 2)
	e.adjust(delta(charge(l, 2), v, -100))
	e.leaves(l, 5)
}

func (e *env) giveBackOne(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	first := e.pass(l, 2)
	e.pass(l, 3)
	third := e.pass(l, 5)
	e.refuse(l, 1)
	e.adjust(delta(charge(l, 2), first, -2))
	e.leaves(l, 2)
	e.adjust(delta(charge(l, 5), third, -5))
	e.leaves(l, 7)
}

func (e *env) chargeMore(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 2)
	e.adjust(delta(charge(l, 2), v, 3))
	e.leaves(l, 5)
	e.adjust(delta(charge(l, 5), v, 10))
	e.leaves(l, 0)
	wait := e.refuse(l, 1).RetryAfter
	e.clock.advance(wait - µs)
	e.refuse(l, 1)
	e.clock.advance(µs)
	e.pass(l, 1)
}

func (e *env) noReceipt(a ratelimit.Algorithm) {
	for _, rate := range []string{"10/s", "10/366d"} {
		l := e.limit(a, rate, 0)
		e.pass(l, 8)
		before := e.leaves(l, 2)
		e.adjust(delta(charge(l, 8), ratelimit.Verdict{}, -8))
		e.expect("peek after a zero receipt", e.one(l, 0), before)
		refused := e.one(l, 5)
		e.adjust(delta(charge(l, 5), refused, -5))
		e.expect("peek after the receipt of a refusal", e.one(l, 0), before)
	}
}

func (e *env) moreWithoutReceipt(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	peek := e.leaves(l, 10)
	e.adjust(delta(charge(l, 0), peek, 4))
	e.leaves(l, 6)
}

func (e *env) changeByZero(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 4)
	e.adjust(delta(charge(l, 4), v, 0))
	e.adjust()
	e.expect("peek after changes by 0", e.one(l, 0), v)
}

func (e *env) severalChanges(a ratelimit.Algorithm) {
	l, other := e.limit(a, "10/s", 0), e.limit(a, "20/s", 0)
	got := e.take(charge(l, 3), charge(other, 5))
	second := e.pass(l, 4)
	e.adjust(delta(charge(l, 3), got[0], -3), delta(charge(other, 5), got[1], 6), delta(charge(l, 4), second, -1))
	e.leaves(l, 7)
	e.leaves(other, 9)
}

func (e *env) hugeChanges(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 4)
	e.pass(l, 3)
	e.adjust(delta(charge(l, 4), v, math.MinInt64))
	e.leaves(l, 7)
	for range 3 {
		e.adjust(delta(charge(l, 4), v, math.MaxInt64))
		e.leaves(l, 0)
		e.refuse(l, 1)
	}
	e.adjust(delta(charge(l, 1<<31-1), v, 1<<31-1))
	e.leaves(l, 0)
}

// giveBackChanged gives back a charge of a limit whose count has changed since.
func (e *env) giveBackChanged(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	v := e.pass(l, 6)
	e.pass(l, 2)
	raised := e.limitOf(l.Bucket(), a, "30/s", 0)
	e.leaves(raised, 22)
	e.adjust(delta(charge(raised, 6), v, -2))
	e.leaves(raised, 24)
	e.adjust(delta(charge(l, 4), v, -4))
	e.leaves(l, 8)
}

func (e *env) giveBackEarlier(a ratelimit.Algorithm) {
	l := e.limit(a, "10/s", 0)
	e.clock.set(hour)
	e.pass(l, 1)
	v := e.pass(l, 6)
	e.clock.set(0)
	e.adjust(delta(charge(l, 6), v, -6))
	e.leaves(l, 9)
}
