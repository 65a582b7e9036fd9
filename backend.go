package ratelimit

import (
	"context"
	"math"
	"strconv"
	"time"
)

// A Backend decides charges. Implementations are safe for concurrent use; the
// package backend/backendtest has the suite that each of them passes.
type Backend interface {
	// Take charges all of charges or none, and fills verdicts, which is as long
	// as charges: verdicts[i] answers charges[i].
	//
	// A refusal is a verdict, not an error; one refusal leaves every bucket of
	// the call as it was. Charges on one bucket (bucket name, algorithm and key)
	// add up: they are granted together or not at all under the first one's
	// limit, share one verdict, and a sum above [Limit.Most] is refused with
	// [ReasonNever]. A sum of 0 only reads, and is never refused.
	//
	// An error means that no verdict is known; the charge may have been made.
	// It wraps the cause of ctx's end, or [ErrUnavailable]; a negative cost or
	// slices of different lengths are an [ErrBackendBug].
	//
	// Neither slice, nor the bytes of a key, is read or written after Take
	// returns.
	Take(ctx context.Context, charges []Charge, verdicts []Verdict) error

	// Adjust changes afterwards what granted charges cost, without asking:
	// below zero gives units back, above zero charges more, into debt if need
	// be. What is given back is at most what of that charge still counts: in
	// its own window, or cost - rate × time since. It never creates room that
	// the charge did not take, is best effort, and is not repeated. Errors are
	// those of Take; some deltas may have been applied.
	Adjust(ctx context.Context, deltas []Delta) error

	// Close frees what the backend holds. Calls that follow fail with
	// [ErrUnavailable]. A second Close does nothing.
	Close() error
}

// A Charge asks for Cost units of one bucket.
type Charge struct {
	// Limit is the bucket's rule as it is now. It is never nil.
	Limit *Limit
	// Key tells the bucket apart from others of the same limit. It is opaque;
	// empty is the key of a rule without key parts.
	Key []byte
	// Cost is in units of the limit, 0 or more; 0 only reads.
	Cost int64
}

// A Delta changes what a granted charge cost.
type Delta struct {
	// Limit and Key name the bucket, and Cost is what was charged: those of the
	// Charge.
	Limit *Limit
	Key   []byte
	Cost  int64
	// Units is the change: below zero gives back, above zero charges more.
	Units int64
	// Receipt is the one of the charge's verdict.
	Receipt Receipt
}

// A Receipt tells the backend that gave it which grant a [Delta] is about. It
// means nothing to anybody else, and nothing once the bucket is empty.
type Receipt struct {
	At     int64  // when the charge was granted, µs since 1970 by the backend's clock; 0 if nothing was
	Entry  uint64 // which window, or which entry of a log, as the backend numbers them
	Origin uint32 // which backend, for decorators that have several; 0 where there is one
}

// Never is the [Verdict.RetryAfter] of a charge that no wait will help.
const Never = time.Duration(math.MaxInt64)

// MaxWait is the longest wait that a verdict tells, about 285 years: 2^53-1 µs.
// Longer ones are told as this.
const MaxWait = (1<<53 - 1) * time.Microsecond

// A Reason says why a charge was refused.
type Reason uint8

// The reasons.
const (
	// ReasonNone is the reason of a charge that was not refused.
	ReasonNone Reason = iota
	// ReasonExceeded refuses a charge for which too little is left now.
	ReasonExceeded
	// ReasonNever refuses a charge that can never pass: above what the limit
	// grants at once, or any charge against a limit of 0.
	ReasonNever
)

// String returns "NONE", "RATE_LIMIT_EXCEEDED" or "COST_ABOVE_LIMIT": the
// machine-readable reason that clients are given.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "NONE"
	case ReasonExceeded:
		return "RATE_LIMIT_EXCEEDED"
	case ReasonNever:
		return "COST_ABOVE_LIMIT"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// A Verdict is the answer for one charge. With 10 a second, a burst of 10 and 6
// just taken, Remaining is 4 and ResetAfter 600ms. When another charge of the
// call was refused, Allowed may still be true: this one would have passed; it
// was not made, and Remaining does not count it.
type Verdict struct {
	// Allowed tells whether this charge had room.
	Allowed bool
	// Reason is ReasonNone if Allowed.
	Reason Reason
	// Remaining is how many units are left now, in whole units rounded down,
	// never below 0.
	Remaining int64
	// RetryAfter is how long to wait until the same charge would pass if nobody
	// else called: 0 if Allowed, else whole microseconds rounded up, 1µs to
	// [MaxWait], or [Never].
	RetryAfter time.Duration
	// ResetAfter is how long until the bucket is empty of charges if nobody
	// calls: 0 if it is, else whole microseconds rounded up, to MaxWait.
	ResetAfter time.Duration
	// Wait is how long an allowed call has to wait for its turn. It is 0: no
	// algorithm makes calls wait yet.
	Wait time.Duration
	// Receipt is what a Delta takes back to Adjust; zero if nothing was charged.
	Receipt Receipt
}

// A Sharder is a Backend whose buckets live in several places that fail apart.
type Sharder interface {
	// Shard returns a name for the place of the charge's bucket, the same for
	// each charge on it while the topology is the same. A single server has one.
	Shard(c *Charge) string
}

// A Counter is a Backend that knows how many live instances share it.
type Counter interface {
	// Instances returns how many, this one included, 1 or more: the last known
	// number while the backend is away, and 1 while none is known.
	Instances() int
}

// A FallbackReporter is a Backend that can tell whether a decision is possible
// when what it depends on is away. A Backend that does not implement it is
// taken for one that is not.
type FallbackReporter interface {
	// HasFallback is true for a backend in the process, and for one around it
	// that falls back on it.
	HasFallback() bool
}

// A Bounded is a Backend that answers within a time of its own, whatever it
// depends on does.
type Bounded interface {
	// Budget returns the longest that Take takes, above 0.
	Budget() time.Duration
}

// A Mirror is a Backend whose buckets can be set to what another one says.
type Mirror interface {
	// Mirror makes used units of a bucket count as used now, whatever was before:
	// 0 or more, at most [Limit.Most]. It neither waits nor fails.
	Mirror(l *Limit, key []byte, used int64)
}
