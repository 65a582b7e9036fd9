package backendtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/protolimit/ratelimit"
)

// A reporter is the part of [testing.TB] that checks need.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// An env is what a check works with: a backend of its own, its clock, and calls
// that are remembered, to be printed when one of them surprises.
type env struct {
	reporter
	backend ratelimit.Backend
	clock   *clock
	cfg     *config
	ctx     context.Context
	prefix  string // of bucket names
	buckets int
	calls   []call
}

func newEnv(r reporter, b ratelimit.Backend, c *clock, cfg *config) *env {
	return &env{reporter: r, backend: b, clock: c, cfg: cfg, ctx: context.Background(), prefix: rand.Text()[:12]}
}

// bucket returns a name that no other bucket of this or another run has.
func (e *env) bucket() string {
	e.buckets++
	return fmt.Sprintf("%s-%d", e.prefix, e.buckets)
}

// limit returns a limit on a bucket of its own. Burst 0, and any burst of a
// window, stands for the rate's count.
func (e *env) limit(a ratelimit.Algorithm, rate string, burst int64) *ratelimit.Limit {
	e.Helper()
	return e.limitOf(e.bucket(), a, rate, burst)
}

// limitOf returns a limit on the named bucket.
func (e *env) limitOf(bucket string, a ratelimit.Algorithm, rate string, burst int64) *ratelimit.Limit {
	e.Helper()
	r, err := ratelimit.ParseRate(rate)
	if err != nil {
		e.Fatalf("ParseRate(%q): %v", rate, err)
	}
	rule := ratelimit.Rule{Rate: r, Algorithm: a}
	if a.HasBurst() {
		rule.Burst = burst
	}
	l, err := ratelimit.NewLimit(bucket, rule)
	if err != nil {
		e.Fatalf("NewLimit: %v", err)
	}
	return l
}

// charge returns a charge on the bucket with the key "caller".
func charge(l *ratelimit.Limit, cost int64) ratelimit.Charge { return chargeKey(l, "caller", cost) }

func chargeKey(l *ratelimit.Limit, key string, cost int64) ratelimit.Charge {
	return ratelimit.Charge{Limit: l, Key: []byte(key), Cost: cost}
}

// delta returns a delta for a charge that got v.
func delta(c ratelimit.Charge, v ratelimit.Verdict, units int64) ratelimit.Delta {
	return ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Units: units, Receipt: v.Receipt}
}

// take makes one call, which must be decided.
func (e *env) take(charges ...ratelimit.Charge) []ratelimit.Verdict {
	e.Helper()
	verdicts := make([]ratelimit.Verdict, len(charges))
	err := e.backend.Take(e.ctx, charges, verdicts)
	e.remember(call{at: e.clock.at(), charges: charges, verdicts: verdicts})
	if err != nil {
		e.fail("Take: error %v, want none", err)
	}
	for i := range charges {
		e.checkReceipt(i, charges, verdicts)
	}
	return verdicts
}

// checkReceipt fails where a receipt's instant does not say what was charged.
func (e *env) checkReceipt(i int, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	e.Helper()
	want, charged := int64(0), false
	for j := range charges {
		charged = charged || charges[j].Cost > 0 && bucketOf(&charges[j]) == bucketOf(&charges[i])
	}
	if charged && !slices.ContainsFunc(verdicts, func(v ratelimit.Verdict) bool { return !v.Allowed }) {
		want = e.clock.now().UnixMicro()
	}
	got := verdicts[i].Receipt
	if got.At != want || want == 0 && got != (ratelimit.Receipt{}) {
		e.fail("Take: verdict %d has receipt %+v, want At %d, and all zero where nothing was charged", i, got, want)
	}
}

// adjust makes one call of Adjust, which must work.
func (e *env) adjust(deltas ...ratelimit.Delta) {
	e.Helper()
	err := e.backend.Adjust(e.ctx, deltas)
	e.remember(call{at: e.clock.at(), deltas: deltas})
	if err != nil {
		e.fail("Adjust: error %v, want none", err)
	}
}

// one makes a call of one charge.
func (e *env) one(l *ratelimit.Limit, cost int64) ratelimit.Verdict {
	e.Helper()
	return e.take(charge(l, cost))[0]
}

// pass makes a call of one charge, which must be allowed.
func (e *env) pass(l *ratelimit.Limit, cost int64) ratelimit.Verdict {
	e.Helper()
	v := e.one(l, cost)
	if !v.Allowed {
		e.fail("Take: got %s, want it allowed", formatVerdict(v))
	}
	return v
}

// refuse makes a call of one charge, which must be refused for now.
func (e *env) refuse(l *ratelimit.Limit, cost int64) ratelimit.Verdict {
	e.Helper()
	v := e.one(l, cost)
	if v.Allowed || v.Reason != ratelimit.ReasonExceeded {
		e.fail("Take: got %s, want it refused with %v", formatVerdict(v), ratelimit.ReasonExceeded)
	}
	return v
}

// leaves fails unless a peek says that so many units remain.
func (e *env) leaves(l *ratelimit.Limit, remaining int64) ratelimit.Verdict {
	e.Helper()
	v := e.one(l, 0)
	if !v.Allowed || v.Remaining != remaining {
		e.fail("peek: got %s, want it allowed with remaining %d", formatVerdict(v), remaining)
	}
	return v
}

// expect fails unless a verdict, receipt aside, is the one wanted.
func (e *env) expect(what string, got, want ratelimit.Verdict) {
	e.Helper()
	got.Receipt, want.Receipt = ratelimit.Receipt{}, ratelimit.Receipt{}
	if got != want {
		e.fail("%s:\n got  %s\n want %s", what, formatVerdict(got), formatVerdict(want))
	}
}

// passes is the verdict of a charge that had room.
func passes(remaining int64, reset time.Duration) ratelimit.Verdict {
	return ratelimit.Verdict{Allowed: true, Remaining: remaining, ResetAfter: reset}
}

// waits is the verdict of a charge that has to come back.
func waits(remaining int64, retry, reset time.Duration) ratelimit.Verdict {
	return ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

// never is the verdict of a charge that no wait will help.
func never(remaining int64, reset time.Duration) ratelimit.Verdict {
	return ratelimit.Verdict{Reason: ratelimit.ReasonNever, Remaining: remaining, RetryAfter: ratelimit.Never, ResetAfter: reset}
}

// remembered is how many calls a failure prints.
const remembered = 24

func (e *env) remember(c call) {
	e.calls = append(e.calls, c.copied())
	if len(e.calls) > remembered {
		e.calls = slices.Delete(e.calls, 0, len(e.calls)-remembered)
	}
}

// fail ends the check, and prints the calls that led here.
func (e *env) fail(format string, args ...any) {
	e.Helper()
	var lines strings.Builder
	for i := range e.calls {
		fmt.Fprintf(&lines, "\n  %s", e.calls[i])
	}
	e.Fatalf("%s\nthe last calls, since %s:%s", fmt.Sprintf(format, args...), epoch.Format(time.RFC3339), lines.String())
}
