package ratelimit

import (
	"errors"
	"fmt"
)

// ErrUnavailable is wrapped by each error that says: the backend decided
// nothing, within its time budget. The charge may have been made all the same.
var ErrUnavailable = errors.New("ratelimit: backend unavailable")

// ErrBackendBug is wrapped, beside [ErrUnavailable], by an error that waiting
// will not cure: a wrong type, a missing permission, a broken script, a charge
// out of range. To the caller it is unavailable; to an [Observer] it is a bug.
var ErrBackendBug = fmt.Errorf("%w: bug or set-up", ErrUnavailable)

// ErrKeyFunc is wrapped by the error of a call whose key function or generated
// getter panicked. The call was not decided and nothing was charged; the error's
// text has the panic and its stack.
var ErrKeyFunc = errors.New("ratelimit: key function panicked")

// A RuleError is a rule that cannot be used. It comes from [New], [Merge],
// [NewLimit] and the generator, never from a call.
type RuleError struct {
	Method string // full method name, or "" if the rule stands alone
	Rule   string // the rule's name, or "" if the fault is the method's
	Field  string // as the options file spells it, such as "burst"
	Value  string // what it was, quoted if it is text
	Want   string // what would be right, beginning with "want"
}

// Error returns one line, such as
//
//	/acme.Pay/Charge: rule "burst": burst is -1, want 1 to 1000000000000
func (e *RuleError) Error() string {
	place := e.Method
	if e.Rule != "" {
		if place != "" {
			place += ": "
		}
		place += fmt.Sprintf("rule %q", e.Rule)
	}
	if place == "" {
		place = "rule"
	}
	return fmt.Sprintf("%s: %s is %s, %s", place, e.Field, e.Value, e.Want)
}

// A ShardError says which place of a [Sharder] an error is about, where a call was
// about several. It wraps the error.
type ShardError struct {
	Shard string // as Sharder.Shard names it
	Err   error
}

// Error returns the error's text, without the shard: it may be an address.
func (e *ShardError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *ShardError) Unwrap() error { return e.Err }
