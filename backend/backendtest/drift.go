package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// driftChecks add up the rounding of many grants.
func driftChecks() []check {
	return []check{
		{"drift/in fine steps", func(e *env) { e.drift("7/3s", 3, e.grants()) }},
		{"drift/in coarse steps", func(e *env) { e.drift("7/3s", 1<<32+1, e.grants()/100) }},
		{"drift/at a rate that is not whole", func(e *env) { e.drift("999983/7s", 3, e.grants()/100) }},
	}
}

// grants returns how many grants to make. The race detector makes each of them
// some twenty times as slow.
func (e *env) grants() int {
	n := e.cfg.grants
	if raceDetector {
		n /= 10
	}
	if testing.Short() {
		n = min(n, 100_000)
	}
	return n
}

// drift fills a bucket, and then asks for a unit at each instant at which the
// next one has drained. A grant may cost the caller one step of the level, so
// that many steps are refused in the end; and never is one granted early.
func (e *env) drift(rate string, burst int64, n int) {
	l := e.limit(ratelimit.TokenBucket, rate, burst)
	e.pass(l, burst)
	charges, verdicts := []ratelimit.Charge{charge(l, 1)}, make([]ratelimit.Verdict, 1)
	window, count := length(l), l.Rate().Count
	granted := int64(0)
	for i := int64(1); i <= int64(n); i++ {
		e.clock.set(time.Duration(scaledUp(i, window, count)) * µs)
		if err := e.backend.Take(e.ctx, charges, verdicts); err != nil {
			e.fail("grant %d: error %v, want none", i, err)
		}
		if verdicts[0].Allowed {
			granted++
		}
	}
	refused := int64(n) - granted
	if most := int64(n)>>l.Shift() + 1; refused > most {
		e.fail("%d of %d refused at %v, which is %s off; want at most %d", refused, n, l,
			fmt.Sprintf("%.2g", float64(refused)/float64(n)), most)
	}
	if rest := e.one(l, 0).Remaining; granted+rest > int64(n) {
		e.fail("%d granted and %d left after %d had drained", granted, rest, n)
	}
}

// scaledUp returns i × a ÷ b rounded up; the product fits.
func scaledUp(i, a, b int64) int64 { return (i*a + b - 1) / b }
