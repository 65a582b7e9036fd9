package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Algorithm says how a rule's grants are spread over time. The zero value is
// TokenBucket.
type Algorithm uint8

// The algorithms. Windows start at multiples of their length since 1970-01-01
// UTC.
const (
	// TokenBucket grants a burst at once, then the rate.
	TokenBucket Algorithm = iota
	// LeakyBucket is the same bucket as a meter: it fills by each call's cost,
	// drains at the rate, and refuses what would overflow the burst.
	LeakyBucket
	// FixedWindow grants the count in each window.
	FixedWindow
	// SlidingWindow grants the count in a window that slides: used is what the
	// current window used, plus what the window before used times the share of
	// it that is still covered, rounded up.
	SlidingWindow
	// SlidingLog grants exactly the count in any window.
	SlidingLog

	algorithms // how many there are
)

var algorithmNames = [algorithms]string{"TOKEN_BUCKET", "LEAKY_BUCKET", "FIXED_WINDOW", "SLIDING_WINDOW", "SLIDING_LOG"}

// String returns the algorithm's name in the options file: "TOKEN_BUCKET".
func (a Algorithm) String() string {
	if a < algorithms {
		return algorithmNames[a]
	}
	return "Algorithm(" + strconv.Itoa(int(a)) + ")"
}

// HasBurst tells whether rules of this algorithm have a burst of their own;
// the others grant at most their count at once.
func (a Algorithm) HasBurst() bool { return a == TokenBucket || a == LeakyBucket }

// OnUnavailable says what becomes of a call when the backend cannot decide one
// of its rules in time. The zero value is Local.
type OnUnavailable uint8

// What a rule may do when the backend is away.
const (
	// Local lets a fallback in this process decide, at its share of the limit.
	Local OnUnavailable = iota
	// Allow lets the rule pass.
	Allow
	// Deny fails the call as unavailable, and nothing is charged.
	Deny
)

// String returns the name in the options file: "LOCAL".
func (o OnUnavailable) String() string {
	switch o {
	case Local:
		return "LOCAL"
	case Allow:
		return "ALLOW"
	case Deny:
		return "DENY"
	}
	return "OnUnavailable(" + strconv.Itoa(int(o)) + ")"
}

// A Scope says whose bucket a rule charges when it names none. The zero value
// is ScopeMethod.
type Scope uint8

// The scopes.
const (
	// ScopeMethod gives the rule a bucket for each method that it meets.
	ScopeMethod Scope = iota
	// ScopeService gives the rule one bucket for all methods of a service. The
	// service is the part of the method's name before its last slash.
	ScopeService
)

// A Rule is one limit, as data. Generated code makes most of them; a rule in Go
// code needs a Name and a Rate, and may leave out the rest:
//
//	ratelimit.Rule{
//		Name: "per-address",
//		Rate: ratelimit.Rate{Count: 100, Window: time.Minute},
//		Key:  []ratelimit.KeyPart{{Source: ratelimit.SourceIP}},
//	}
type Rule struct {
	// Name is what clients, metrics and overrides call the rule:
	// [a-z][a-z0-9_-]{0,62}, once among the rules of one method.
	Name string
	// Rate is the limit.
	Rate Rate
	// Burst is the most that may pass at once, 1 to [MaxCount]; 0 stands for
	// Rate.Count. Only TokenBucket and LeakyBucket take one.
	Burst int64
	// Algorithm is TokenBucket if left out.
	Algorithm Algorithm
	// Key tells callers apart: each combination of values has its own bucket.
	// Without parts there is one bucket for all callers.
	Key []KeyPart
	// Bucket names the bucket to share it with rules of the same Bucket:
	// [a-z][a-z0-9_.-]{0,62}. Left out, Scope says whose bucket it is.
	Bucket string
	// Scope is ScopeMethod if left out.
	Scope Scope
	// OnUnavailable is Local if left out.
	OnUnavailable OnUnavailable
}

// Most is the largest cost that r can ever grant at once: the burst of a bucket
// algorithm, the count of a window.
func (r *Rule) Most() int64 {
	if r.Algorithm.HasBurst() && r.Burst != 0 {
		return r.Burst
	}
	return r.Rate.Count
}

// Check returns a [*RuleError] for the first field of r that is out of range,
// with Method left empty, or nil.
func (r *Rule) Check() error {
	if err := r.check(); err != nil {
		return err
	}
	return nil
}

// check is Check with its type.
func (r *Rule) check() *RuleError {
	fail := func(field, value, want string) *RuleError {
		return &RuleError{Rule: r.Name, Field: field, Value: value, Want: want}
	}
	if !isName(r.Name, "_-") {
		return fail("name", strconv.Quote(r.Name), "want [a-z][a-z0-9_-]{0,62}")
	}
	if r.Algorithm >= algorithms {
		return fail("algorithm", r.Algorithm.String(), "want one of "+strings.Join(algorithmNames[:], ", "))
	}
	if err := r.Rate.check(); err != nil {
		return fail("rate", strconv.Quote(r.Rate.String()), err.Error())
	}
	if r.Algorithm == SlidingLog && r.Rate.Count > MaxLogCount {
		return fail("rate", strconv.Quote(r.Rate.String()), fmt.Sprintf("want a count of at most %d for SLIDING_LOG", MaxLogCount))
	}
	if r.Burst != 0 {
		if want := r.wantBurst(); want != "" {
			return fail("burst", strconv.FormatInt(r.Burst, 10), want)
		}
	}
	for i := range r.Key {
		if err := r.Key[i].check(); err != nil {
			return fail("key", strconv.Quote(r.Key[i].String()), err.Error())
		}
		same := func(p KeyPart) bool { return p.Source == r.Key[i].Source && p.Name == r.Key[i].Name }
		if slices.ContainsFunc(r.Key[:i], same) {
			return fail("key", strconv.Quote(r.Key[i].String()), "want each part once")
		}
	}
	if r.Bucket != "" && !isName(r.Bucket, "_.-") {
		return fail("bucket", strconv.Quote(r.Bucket), "want [a-z][a-z0-9_.-]{0,62}")
	}
	if r.Scope > ScopeService {
		return fail("scope", strconv.Itoa(int(r.Scope)), "want ScopeMethod or ScopeService")
	}
	if r.OnUnavailable > Deny {
		return fail("on_unavailable", r.OnUnavailable.String(), "want LOCAL, ALLOW or DENY")
	}
	return nil
}

// wantBurst says what was wanted of a burst that is stated, or "".
func (r *Rule) wantBurst() string {
	switch {
	case !r.Algorithm.HasBurst():
		return "want none: only TOKEN_BUCKET and LEAKY_BUCKET take a burst"
	case r.Rate.Count == 0:
		return "want none beside a rate of 0, which refuses every call"
	case r.Burst < 1 || r.Burst > MaxCount:
		return fmt.Sprintf("want 1 to %d", int64(MaxCount))
	}
	return ""
}

// isName tells whether s is a lower-case letter and up to 62 lower-case
// letters, digits and characters of marks.
func isName(s, marks string) bool {
	if s == "" || len(s) > 63 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return true
}
