package backendtest

import (
	"fmt"
	"math"

	"github.com/protolimit/ratelimit"
)

// togetherChecks charge several buckets in one call: all of them, or none.
func togetherChecks() []check {
	return []check{
		{"together/a refusal leaves the other limit unspent", (*env).tenantAndMethod},
		{"together/a refusal changes no bucket of the call", (*env).refusalChangesNothing},
		{"together/a refusal for ever changes no bucket of the call", (*env).neverChangesNothing},
		{"together/all buckets of a granted call are charged", (*env).allCharged},
		{"together/32 rules in one call", (*env).manyRules},
		{"together/charges on one bucket add up", (*env).sameBucket},
		{"together/charges on one bucket add up beside others", (*env).sameBucketBesideOthers},
		{"together/the first limit of a bucket decides", (*env).firstLimitDecides},
		{"together/sums past the largest cost never pass", (*env).hugeSums},
		{"together/a bucket of another algorithm or key is another one", (*env).otherBuckets},
		{"together/refused calls do not count", (*env).refusedDoNotCount},
	}
}

func (e *env) tenantAndMethod() {
	tenant, method := e.limit(ratelimit.TokenBucket, "10/m", 0), e.limit(ratelimit.TokenBucket, "3/m", 0)
	for i := range 5 {
		v := e.take(charge(tenant, 1), charge(method, 1))
		if allowed := v[0].Allowed && v[1].Allowed; allowed != (i < 3) {
			e.fail("call %d of both: allowed %t, want %t", i, allowed, i < 3)
		}
	}
	for range 7 {
		e.pass(tenant, 1)
	}
	e.refuse(tenant, 1)
}

// oneOfEach returns a limit of each algorithm.
func (e *env) oneOfEach(rate string) []*ratelimit.Limit {
	e.Helper()
	var limits []*ratelimit.Limit
	for _, a := range everyAlgorithm {
		limits = append(limits, e.limit(a, rate, 0))
	}
	return limits
}

// peeks returns a charge of 0 on each.
func peeks(limits []*ratelimit.Limit) []ratelimit.Charge {
	var charges []ratelimit.Charge
	for _, l := range limits {
		charges = append(charges, charge(l, 0))
	}
	return charges
}

// refusalChangesNothing has each algorithm refuse once, in each place of the
// call, and compares all buckets before and after.
func (e *env) refusalChangesNothing() {
	limits := e.oneOfEach("10/s")
	for _, l := range limits {
		e.pass(l, 4)
	}
	before := e.take(peeks(limits)...)
	for refusing := range limits {
		for first := range limits {
			var charges []ratelimit.Charge
			var want []ratelimit.Verdict
			for i := range limits {
				at := (first + i) % len(limits)
				cost := int64(3)
				expected := before[at]
				if at == refusing {
					cost = 7
					expected.Allowed, expected.Reason = false, ratelimit.ReasonExceeded
				}
				charges, want = append(charges, charge(limits[at], cost)), append(want, expected)
			}
			got := e.take(charges...)
			for i := range got {
				want[i].RetryAfter = got[i].RetryAfter
				e.expect(fmt.Sprintf("verdict %d of a refused call", i), got[i], want[i])
			}
			if wait := got[(refusing-first+len(limits))%len(limits)].RetryAfter; wait <= 0 {
				e.fail("retry after is %v, want above 0", wait)
			}
			for i, v := range e.take(peeks(limits)...) {
				e.expect(fmt.Sprintf("bucket %d after a refused call", i), v, before[i])
			}
		}
	}
}

func (e *env) neverChangesNothing() {
	limits := e.oneOfEach("5/s")
	before := e.take(peeks(limits)...)
	for i := range limits {
		charges := peeks(limits)
		for j := range charges {
			charges[j].Cost = 1
		}
		charges[i].Cost = 6
		got := e.take(charges...)
		for j := range got {
			want := passes(5, 0)
			if j == i {
				want = never(5, 0)
			}
			e.expect(fmt.Sprintf("verdict %d of a call that never passes", j), got[j], want)
		}
		for j, v := range e.take(peeks(limits)...) {
			e.expect(fmt.Sprintf("bucket %d after a call that never passes", j), v, before[j])
		}
	}
}

func (e *env) allCharged() {
	limits := e.oneOfEach("10/s")
	charges := peeks(limits)
	for i := range charges {
		charges[i].Cost = int64(i)
	}
	e.take(charges...)
	for i, v := range e.take(peeks(limits)...) {
		if want := int64(10 - i); v.Remaining != want {
			e.fail("bucket %d: remaining %d after a granted call, want %d", i, v.Remaining, want)
		}
	}
}

func (e *env) manyRules() {
	var limits []*ratelimit.Limit
	for i := range 32 {
		limits = append(limits, e.limit(everyAlgorithm[i%len(everyAlgorithm)], fmt.Sprintf("%d/m", 3+i), 0))
	}
	charges := peeks(limits)
	for i := range charges {
		charges[i].Cost = 1
	}
	for round := range 5 {
		want := int64(min(round+1, 3))
		for i, v := range e.take(charges...) {
			if allowed := i > 0 || round < 3; v.Allowed != allowed {
				e.fail("round %d: rule %d is allowed %t, want %t", round, i, v.Allowed, allowed)
			}
			if remaining := int64(3+i) - want; v.Remaining != remaining {
				e.fail("round %d: rule %d has remaining %d, want %d", round, i, v.Remaining, remaining)
			}
		}
	}
}

func (e *env) sameBucket() {
	for _, a := range everyAlgorithm {
		l := e.limit(a, "10/s", 0)
		for i, v := range e.take(charge(l, 2), charge(l, 0), charge(l, 3)) {
			if !v.Allowed || v.Remaining != 5 {
				e.fail("verdict %d: got %s, want it allowed with remaining 5", i, formatVerdict(v))
			}
		}
		for i, v := range e.take(charge(l, 2), charge(l, 2), charge(l, 2)) {
			if v.Allowed || v.Reason != ratelimit.ReasonExceeded || v.Remaining != 5 || v.RetryAfter <= 0 {
				e.fail("verdict %d: got %s, want it refused for now with remaining 5", i, formatVerdict(v))
			}
		}
		for i, v := range e.take(charge(l, 10), charge(l, 1)) {
			if v.Allowed || v.Reason != ratelimit.ReasonNever || v.Remaining != 5 || v.RetryAfter != ratelimit.Never {
				e.fail("verdict %d: got %s, want it refused for ever with remaining 5", i, formatVerdict(v))
			}
		}
		e.leaves(l, 5)
	}
}

func (e *env) sameBucketBesideOthers() {
	for _, a := range everyAlgorithm {
		twice, other := e.limit(a, "4/s", 0), e.limit(ratelimit.TokenBucket, "10/s", 0)
		got := e.take(charge(twice, 2), charge(other, 3), charge(twice, 2))
		for i, want := range []int64{0, 7, 0} {
			if !got[i].Allowed || got[i].Remaining != want {
				e.fail("verdict %d: got %s, want it allowed with remaining %d", i, formatVerdict(got[i]), want)
			}
		}
		got = e.take(charge(other, 3), charge(twice, 1), charge(other, 3))
		for i, want := range []bool{true, false, true} {
			if got[i].Allowed != want || got[i].Remaining != []int64{7, 0, 7}[i] {
				e.fail("verdict %d: got %s, want allowed %t, and nothing charged", i, formatVerdict(got[i]), want)
			}
		}
		e.leaves(other, 7)
	}
}

func (e *env) firstLimitDecides() {
	for _, a := range everyAlgorithm {
		small := e.limit(a, "5/s", 0)
		large := e.limitOf(small.Bucket(), a, "50/s", 0)
		for i, v := range e.take(charge(small, 3), charge(large, 3)) {
			e.expect(fmt.Sprintf("verdict %d under the small limit", i), v, never(5, 0))
		}
		for i, v := range e.take(charge(large, 3), charge(small, 3)) {
			if !v.Allowed || v.Remaining != 44 {
				e.fail("verdict %d: got %s, want it allowed with remaining 44", i, formatVerdict(v))
			}
		}
	}
}

func (e *env) hugeSums() {
	for _, a := range everyAlgorithm {
		l := e.limit(a, "10/s", 0)
		for _, costs := range [][]int64{
			{1<<31 - 1, 1<<31 - 1},
			{math.MaxInt64, math.MaxInt64},
			{math.MaxInt64, 1, math.MaxInt64, 2},
			{1 << 62, 1 << 62, 1 << 62, 1 << 62},
		} {
			var charges []ratelimit.Charge
			for _, cost := range costs {
				charges = append(charges, charge(l, cost))
			}
			for i, v := range e.take(charges...) {
				e.expect(fmt.Sprintf("verdict %d", i), v, never(10, 0))
			}
		}
		e.leaves(l, 10)
	}
}

func (e *env) otherBuckets() {
	bucket := e.bucket()
	var charges []ratelimit.Charge
	for _, a := range everyAlgorithm {
		l := e.limitOf(bucket, a, "3/s", 0)
		charges = append(charges, chargeKey(l, "one", 2), chargeKey(l, "two", 2))
	}
	for i, v := range e.take(charges...) {
		if !v.Allowed || v.Remaining != 1 {
			e.fail("verdict %d: got %s, want it allowed with remaining 1", i, formatVerdict(v))
		}
	}
}

func (e *env) refusedDoNotCount() {
	for _, a := range everyAlgorithm {
		l := e.limit(a, "10/h", 0)
		for i := range 50 {
			if v := e.one(l, 1); v.Allowed != (i < 10) {
				e.fail("call %d: allowed %t, want %t", i, v.Allowed, i < 10)
			}
		}
		raised := e.limitOf(l.Bucket(), a, "20/h", 0)
		for range 10 {
			e.pass(raised, 1)
		}
		e.refuse(raised, 1)
	}
}
