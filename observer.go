package ratelimit

import (
	"context"
	"strconv"
)

// An Observer sees what a limiter does, for metrics and logs. Its functions are
// called in the goroutine of the call, must be quick and safe for concurrent use,
// and must not keep the decision, which is used again. Those that are nil are not
// called.
type Observer struct {
	// Decision is called once a decision, before the handler. Calls of methods
	// without rules are not decided, and not seen.
	Decision func(ctx context.Context, d *Decision)
	// Refund is called when a charge was given back, as the method's RefundOn
	// says, with nil; or, if it could not be, with the backend's error. The units
	// then stay charged.
	Refund func(ctx context.Context, d *Decision, err error)
}

// An Outcome is what became of a call.
type Outcome uint8

// The outcomes.
const (
	// OutcomeAllowed is a call that every rule granted, or that has no rules.
	OutcomeAllowed Outcome = iota
	// OutcomeRefused is a call that a rule refused.
	OutcomeRefused
	// OutcomeUnlimited is a call that is served although the backend decided
	// nothing, as its rules say.
	OutcomeUnlimited
	// OutcomeUnavailable is a call that fails since the backend decided nothing
	// and a rule says Deny.
	OutcomeUnavailable
	// OutcomeCanceled is a call whose caller left before it was decided.
	OutcomeCanceled
	// OutcomeFailed is a call whose key could not be told: see [ErrKeyFunc].
	OutcomeFailed
)

var outcomeNames = [...]string{"allowed", "refused", "unlimited", "unavailable", "canceled", "failed"}

// String returns the outcome in lower case, as a metric's label: "allowed".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}
