package ratelimit

import (
	"context"
	"strconv"
)

// An Observer sees each decision of a limiter, for metrics and logs. Calls of
// methods that have no rules are not decided, and not seen.
type Observer interface {
	// ObserveDecision is called once a decision, in the goroutine of the call
	// and before its handler: it must be quick. It must not keep d, which is
	// used again. It is safe for concurrent use.
	ObserveDecision(ctx context.Context, d *Decision)
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
