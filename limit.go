package ratelimit

import (
	"strconv"
	"time"
)

// A Limit is a rule as a backend needs it: whose bucket it is, the numbers, and
// how every backend counts them. It is immutable and safe to share.
//
// # Arithmetic
//
// All backends compute alike, in integers. Time is in whole microseconds. The
// level of a bucket algorithm, what is used of it, is counted in steps, 2^20 or
// 2^10 of them to a unit ([Limit.Shift]); in t microseconds floor(t × num ÷ den)
// steps drain ([Limit.Drain]). A charge passes if the level, drained since the
// last grant, and the cost are together at most the burst. A grant stores the
// level and the time; a refusal stores nothing.
type Limit struct {
	bucket        string
	hash          uint64
	algorithm     Algorithm
	onUnavailable OnUnavailable
	most          int64
	largest       int64
	rate          Rate
	shift         uint8
	num, den      uint64
}

// coarseBurst is the largest burst whose level is counted in the fine steps.
const coarseBurst = 1 << 32

// NewLimit returns the Limit of a rule whose buckets have the given name, which
// is any text; buckets of equal name, algorithm and key are one. A rule's Key,
// Bucket and Scope do not matter here, and its Name may be empty. A [*RuleError]
// says which number is out of range.
func NewLimit(bucket string, rule Rule) (*Limit, error) {
	numbers := rule
	numbers.Key, numbers.Bucket, numbers.Scope = nil, "", ScopeMethod
	if numbers.Name == "" {
		numbers.Name = "limit"
	}
	if err := numbers.Check(); err != nil {
		return nil, err
	}
	l := &Limit{
		bucket:        bucket,
		hash:          hashBucket(bucket, rule.Algorithm),
		algorithm:     rule.Algorithm,
		onUnavailable: rule.OnUnavailable,
		most:          rule.Most(),
		largest:       rule.Most(),
		rate:          rule.Rate,
	}
	l.count(1)
	return l, nil
}

// count derives how the level of a bucket is counted, in a window that is some
// times as long.
func (l *Limit) count(times uint64) {
	l.shift = 20
	if l.most > coarseBurst {
		l.shift = 10
	}
	l.num = uint64(l.rate.Count) << l.shift
	l.den = uint64(l.rate.Window.Microseconds()) * times
	if divisor := gcd(l.num, l.den); divisor > 1 {
		l.num /= divisor
		l.den /= divisor
	}
}

// Bucket returns the name of the limit's buckets.
func (l *Limit) Bucket() string { return l.bucket }

// Hash returns a hash of the bucket's name and the algorithm, the same in every
// process. Rules are few and come from their owner; keys come from callers and
// want a seeded hash.
func (l *Limit) Hash() uint64 { return l.hash }

// Algorithm returns the rule's algorithm.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// OnUnavailable says what to do when the backend is away.
func (l *Limit) OnUnavailable() OnUnavailable { return l.onUnavailable }

// Rate returns the rule's rate.
func (l *Limit) Rate() Rate { return l.rate }

// Window returns the length of the rate's window, in whole milliseconds.
func (l *Limit) Window() time.Duration { return l.rate.Window }

// Most returns the largest cost that can be granted at once: the burst of a
// bucket algorithm, the count of a window; 0 refuses every cost above 0.
func (l *Limit) Most() int64 { return l.most }

// Largest returns the largest cost that can ever pass: Most, or for a [Limit.Share]
// that of the whole limit. A cost above Most passes when nothing of its bucket is
// used.
func (l *Limit) Largest() int64 { return l.largest }

// Shift returns the binary logarithm of how many steps of level make one unit:
// 20 for a burst to 2^32, 10 beyond.
func (l *Limit) Shift() uint8 { return l.shift }

// Drain returns the rate as a fraction in lowest terms, num ÷ den steps of
// level a microsecond. num is 0 to 2^60 and den 1 to 2^45, more for a share; num
// is 0 for a limit of 0.
func (l *Limit) Drain() (num, den uint64) { return l.num, l.den }

// String returns the limit for a person: `bucket "daily" 1000/d TOKEN_BUCKET
// burst 1000`.
func (l *Limit) String() string {
	s := "bucket " + strconv.Quote(l.bucket) + " " + l.rate.String() + " " + l.algorithm.String()
	if l.algorithm.HasBurst() {
		s += " burst " + strconv.FormatInt(l.most, 10)
	}
	return s
}

// hashBucket is 64-bit FNV-1a of the name and the algorithm, stirred so that
// every bit depends on every byte.
func hashBucket(bucket string, a Algorithm) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(bucket) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ uint64(a)) * 1099511628211
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
