package backendtest

import (
	"fmt"
	"strings"

	"github.com/protolimit/ratelimit"
)

// identityChecks are about buckets whose names or keys are near each other.
func identityChecks() []check {
	all := []check{
		{"identity/a bucket is the same under another limit value and key slice", (*env).sameIdentity},
		{"identity/keys are told apart in one call", (*env).keysInOneCall},
	}
	for _, a := range everyAlgorithm {
		all = append(all, check{fmt.Sprintf("identity/%v buckets of other names or keys never meet", a), func(e *env) { e.nearKeys(a) }})
	}
	return all
}

// nearNames are keys, and ends of bucket names, of which any two differ by what
// a careless encoding loses.
func nearNames() []string {
	long := strings.Repeat("k", 64<<10)
	return []string{
		"", "a", "b", "ab", "abc", "bc", "c", "A", " ", "a ", " a", "a\x00", "\x00a", "\x00", "\x00\x00", "a\x00b",
		":", "a:", ":a", "a:b", "{", "}", "{}", "{a}", "a{", "}a{", "{a}b", "a{b}", "%", "%00", "%7B", "\\", "\\x00",
		"/", "a/b", "|", "a|b", "\n", "\r\n", "'", `"`, "é", "e\u0301", "\xff", "\xfe", "\xff\xfe", "\xc3", "\xed\xa0\x80",
		"\ufffd", "0", "1", "00", "-1", "none", "(none)", "nil", "*", "?", long, long + "a", long[1:] + "a", long[1:],
	}
}

// nearKeys charges buckets that are near each other, each a number of times of
// its own, then looks at all of them.
func (e *env) nearKeys(a ratelimit.Algorithm) {
	bucket := e.bucket()
	var charges []ratelimit.Charge
	for _, name := range nearNames() {
		of := func(name string) *ratelimit.Limit { return e.limitOf(bucket+name, a, "1000/h", 0) }
		charges = append(charges, chargeKey(of(""), name, 1), chargeKey(of(name), "", 1), chargeKey(of("a"), name, 1))
		if name != "a" {
			charges = append(charges, chargeKey(of(name), "a", 1))
		}
	}
	charges = distinct(charges)
	for i := range charges {
		charges[i].Cost = int64(1 + i%300)
		e.take(charges[i])
	}
	for i := range charges {
		peek := charges[i]
		peek.Cost = 0
		if v := e.take(peek)[0]; v.Remaining != 1000-charges[i].Cost {
			e.fail("got %s, want remaining %d: another bucket's charges count here", formatVerdict(v), 1000-charges[i].Cost)
		}
	}
}

// distinct leaves out charges on the bucket of an earlier one.
func distinct(charges []ratelimit.Charge) []ratelimit.Charge {
	seen := map[bucketID]bool{}
	var kept []ratelimit.Charge
	for i := range charges {
		id := bucketOf(&charges[i])
		if !seen[id] {
			seen[id] = true
			kept = append(kept, charges[i])
		}
	}
	return kept
}

func (e *env) sameIdentity() {
	for _, key := range nearNames() {
		bucket := e.bucket()
		e.take(chargeKey(e.limitOf(bucket, ratelimit.FixedWindow, "9/h", 0), key, 4))
		v := e.take(chargeKey(e.limitOf(bucket, ratelimit.FixedWindow, "9/h", 0), key, 4))[0]
		if v.Remaining != 1 {
			e.fail("got %s, want remaining 1: the same bucket", formatVerdict(v))
		}
	}
	bucket := e.bucket()
	l := e.limitOf(bucket, ratelimit.TokenBucket, "9/h", 0)
	e.take(ratelimit.Charge{Limit: l, Key: nil, Cost: 4})
	if v := e.take(ratelimit.Charge{Limit: l, Key: []byte{}, Cost: 4})[0]; v.Remaining != 1 {
		e.fail("got %s, want remaining 1: no key and an empty key are one bucket", formatVerdict(v))
	}
}

func (e *env) keysInOneCall() {
	for _, a := range everyAlgorithm {
		l := e.limit(a, "5/s", 0)
		charges := []ratelimit.Charge{
			chargeKey(l, "", 1), chargeKey(l, "a", 2), chargeKey(l, "b", 3), chargeKey(l, "a", 1), chargeKey(l, "a\x00", 1),
		}
		for i, v := range e.take(charges...) {
			if want := []int64{4, 2, 2, 2, 4}[i]; !v.Allowed || v.Remaining != want {
				e.fail("verdict %d: got %s, want it allowed with remaining %d", i, formatVerdict(v), want)
			}
		}
	}
}
