package backendtest

import (
	"fmt"

	"github.com/protolimit/ratelimit"
)

// peekChecks are about costs that charge nothing: 0, and what can never pass.
func peekChecks() []check {
	var all []check
	for _, a := range everyAlgorithm {
		all = append(all,
			check{fmt.Sprintf("peek/%v reads and charges nothing", a), func(e *env) { e.peekReads(a) }},
			check{fmt.Sprintf("peek/%v is never refused", a), func(e *env) { e.peekPasses(a) }},
			check{fmt.Sprintf("peek/%v of 0 refuses every charge", a), func(e *env) { e.zeroRefuses(a) }},
			check{fmt.Sprintf("peek/%v of 0 keeps what other numbers stored", a), func(e *env) { e.zeroKeeps(a) }},
			check{fmt.Sprintf("peek/%v refuses a cost above the limit for ever", a), func(e *env) { e.aboveLimit(a) }},
		)
	}
	return all
}

func (e *env) peekReads(a ratelimit.Algorithm) {
	l := e.limit(a, "5/s", 0)
	e.expect("peek at a new bucket", e.one(l, 0), passes(5, 0))
	before := e.pass(l, 2)
	for range 3 {
		e.expect("peek", e.one(l, 0), before)
	}
	e.pass(l, 3)
}

func (e *env) peekPasses(a ratelimit.Algorithm) {
	l := e.limit(a, "5/s", 0)
	full := e.pass(l, 5)
	e.expect("peek at a full bucket", e.one(l, 0), full)
	lowered := e.limitOf(l.Bucket(), a, "2/s", 0)
	v := e.one(lowered, 0)
	if !v.Allowed || v.Reason != ratelimit.ReasonNone || v.Remaining != 0 || v.RetryAfter != 0 || v.ResetAfter <= 0 {
		e.fail("peek at a bucket past its limit: got %s, want it allowed with remaining 0", formatVerdict(v))
	}
}

func (e *env) zeroRefuses(a ratelimit.Algorithm) {
	for _, rate := range []string{"0/s", "0/366d", "0/ms"} {
		l := e.limit(a, rate, 0)
		e.expect("peek at a limit of 0", e.one(l, 0), passes(0, 0))
		for i := range 100 {
			e.expect(fmt.Sprintf("call %d", i), e.one(l, 1), never(0, 0))
		}
		e.expect("the largest cost", e.one(l, 1<<31-1), never(0, 0))
		e.adjust(delta(charge(l, 1), ratelimit.Verdict{}, 1), delta(charge(l, 1), ratelimit.Verdict{}, -1))
		e.expect("after adjustments", e.one(l, 0), passes(0, 0))
		e.expect("the same bucket with other numbers", e.one(e.limitOf(l.Bucket(), a, "3/s", 0), 0), passes(3, 0))
	}
}

func (e *env) zeroKeeps(a ratelimit.Algorithm) {
	l := e.limit(a, "5/s", 0)
	used := e.pass(l, 3)
	zero := e.limitOf(l.Bucket(), a, "0/s", 0)
	e.expect("a charge under 0", e.one(zero, 1), never(0, 0))
	e.adjust(delta(charge(zero, 3), used, 2), delta(charge(zero, 3), used, -3))
	e.expect("peek under the first numbers", e.one(l, 0), passes(2, used.ResetAfter))
}

func (e *env) aboveLimit(a ratelimit.Algorithm) {
	l := e.limit(a, "5/s", 0)
	for _, cost := range []int64{6, 10, 1<<31 - 1, 1<<63 - 1} {
		e.expect("a cost above the limit", e.one(l, cost), never(5, 0))
	}
	v := e.pass(l, 1)
	if v.Remaining != 4 {
		e.fail("a charge of 1 after refusals: got %s, want remaining 4", formatVerdict(v))
	}
	e.expect("a cost above the limit of a used bucket", e.one(l, 6), never(4, v.ResetAfter))
	e.refuse(l, 5)
	other := e.limit(a, "3/s", 0)
	e.pass(other, 2)
	e.refuse(other, 2)
}
