package ratelimit

import (
	"context"
	"time"
)

// A Decision is the answer for one call. It is read-only, belongs to whoever
// called [Limiter.Decide], and is not used after Done. Calls without rules share
// one that is empty but for Binding.
type Decision struct {
	// Method is the call's full method name, or "" for a call without rules.
	Method string
	// Outcome is what becomes of the call.
	Outcome Outcome
	// Err is nil if Outcome is OutcomeAllowed or OutcomeRefused. Else it says
	// why nothing was decided, for operators and not for clients: it wraps the
	// cause of the context's end, [ErrKeyFunc], or [ErrUnavailable], and
	// [ErrBackendBug] if waiting will not help.
	Err error
	// Rules are the rules of the call, shared by all calls of the method. They
	// are empty for a method without rules.
	Rules []Rule
	// Verdicts answer the rules, one for each; empty if nothing was decided.
	Verdicts []Verdict
	// Binding is the index of the rule that binds: of those that refuse, the
	// one with the longest wait; if none does, the one with the least left. The
	// first counts among equals. It is -1 without verdicts.
	Binding int

	limiter *Limiter
	plan    *plan
	charges []Charge
	deltas  []Delta
	key     keyBuffer
}

// unlimited is the decision for calls without rules.
var unlimited = &Decision{Binding: -1}

// Allowed tells whether the call is to be served.
func (d *Decision) Allowed() bool {
	return d.Outcome == OutcomeAllowed || d.Outcome == OutcomeUnlimited
}

// RetryAfter is how long a refused call should wait, [Never] if no wait will
// help, and 0 for a call that was not refused.
func (d *Decision) RetryAfter() time.Duration {
	if d.Outcome != OutcomeRefused {
		return 0
	}
	return d.Verdicts[d.Binding].RetryAfter
}

// Missing tells whether the call lacked a part of the key of rule i, and so was
// charged to the bucket that all such calls share.
func (d *Decision) Missing(i int) bool {
	return d.plan != nil && d.key.missing&d.plan.keys[i].mask != 0
}

// Cost is what the call asks of each rule, in units; 0 if there are none or a key
// function panicked.
func (d *Decision) Cost() int64 {
	if len(d.charges) == 0 {
		return 0
	}
	return d.charges[0].Cost
}

// Done ends the decision, after the handler or instead of it, with the status
// of the call. If the call was charged and its method gives charges back on
// this code, it does so, even if ctx has ended; if the backend cannot, the
// [Observer] and the log are told. Done is called at most once; without it
// nothing leaks, but nothing is given back or used again.
func (d *Decision) Done(ctx context.Context, code Code) {
	if d.plan == nil {
		return
	}
	if d.Outcome == OutcomeAllowed && d.plan.refunds(code) {
		d.refund(context.WithoutCancel(ctx))
	}
	d.limiter.release(d)
}

func (d *Decision) refund(ctx context.Context) {
	d.deltas = d.deltas[:0]
	for i := range d.charges {
		c := &d.charges[i]
		d.deltas = append(d.deltas, Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Units: -c.Cost, Receipt: d.Verdicts[i].Receipt})
	}
	d.limiter.refunded(ctx, d, d.limiter.backend.Adjust(ctx, d.deltas))
}

// judge sets the outcome and the binding rule from the verdicts.
func (d *Decision) judge() {
	d.Outcome, d.Binding = OutcomeAllowed, 0
	for i := range d.Verdicts {
		v, binding := &d.Verdicts[i], &d.Verdicts[d.Binding]
		switch {
		case !v.Allowed && d.Outcome == OutcomeAllowed:
			d.Outcome, d.Binding = OutcomeRefused, i
		case !v.Allowed && v.RetryAfter > binding.RetryAfter,
			d.Outcome == OutcomeAllowed && v.Remaining < binding.Remaining:
			d.Binding = i
		}
	}
}

// giveUp sets the outcome of a call for which the backend has no verdict.
func (d *Decision) giveUp(outcome Outcome, err error) {
	d.Err, d.Outcome, d.Verdicts, d.Binding = err, outcome, d.Verdicts[:0], -1
}
