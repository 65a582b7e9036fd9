package goredis

import (
	"math"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// A level is the state of a bucket of TOKEN_BUCKET or LEAKY_BUCKET.
type level struct {
	stored uint64 // when it was stored, in steps of its limit
	since  uint64 // µs since then
}

// What buckets.lua says of a call, and of the form of a state (common.lua).
const (
	saysCharged   = '+'
	saysNot       = '-'
	saysForeign   = '!'
	saysUndecided = '?'

	formNone    = '0'
	formShort   = 's'
	formLong    = 'l'
	formForeign = '!'

	shortSize = 12
	longSize  = 25

	shortShift = 20
	shortMark  = 10 << 31 // stands above the level in the short form
)

// readStates reads what buckets.lua says of the request from the head of reply,
// and returns the rest.
func (r *request) readStates(reply string, now int64) (rest string, ok bool) {
	if reply == "" {
		return "", false
	}
	says := reply[0]
	rest = reply[1:]
	r.granted, r.large = says == saysCharged, says == saysUndecided
	for i := range r.buckets {
		b := &r.buckets[i]
		var l level
		if l, rest, ok = b.readState(rest, now); !ok {
			return "", false
		}
		switch {
		case l.stored == foreign:
			r.err = errForeign(b.limit)
		case says == saysCharged && b.units > 0:
			b.verdict = l.verdict(b.limit, 0)
			b.verdict.Receipt.At = now
		default:
			b.verdict = l.verdict(b.limit, b.units)
		}
	}
	return rest, says == saysCharged || says == saysNot || says == saysForeign || says == saysUndecided
}

// foreign is what is stored where a key holds something else.
const foreign = math.MaxUint64

// readState reads the state of a bucket from the head of reply, and returns the
// rest.
func (b *bucket) readState(reply string, now int64) (l level, rest string, ok bool) {
	if reply == "" {
		return l, "", false
	}
	form, rest := reply[0], reply[1:]
	var shift uint8
	var at int64
	switch {
	case form == formNone:
		return l, rest, true
	case form == formForeign:
		return level{stored: foreign}, rest, true
	case form == formShort && len(rest) >= shortSize:
		low, high := number48(rest), number48(rest[6:])
		l.stored, shift, at = high>>13-shortMark, shortShift, int64(low|high&15<<48)
		rest = rest[shortSize:]
	case form == formLong && len(rest) >= longSize:
		l.stored, shift, at = uint64(double(rest[1:])), rest[0], double(rest[9:])
		rest = rest[longSize:]
	default:
		return l, "", false
	}
	l.stored = inSteps(l.stored, shift, b.limit.Shift())
	l.since = uint64(max(now-at, 0))
	return l, rest, true
}

// number48 reads the 48 bits at the head of s.
func number48(s string) uint64 {
	_ = s[5]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40
}

// inSteps converts a level that was stored with a shift to the steps of another.
func inSteps(level uint64, from, to uint8) uint64 {
	switch {
	case from > to:
		return (level + 1<<(from-to) - 1) >> (from - to)
	case from < to:
		return min(level<<(to-from), maxDouble)
	}
	return level
}

// verdict returns the verdict on units that were not charged; for what was, the
// one on 0.
func (l level) verdict(limit *ratelimit.Limit, units int64) ratelimit.Verdict {
	shift := limit.Shift()
	now, most := l.now(limit), uint64(limit.Most())<<shift
	v := ratelimit.Verdict{Allowed: true, Remaining: int64(arith.Less(most, now) >> shift)}
	if now > 0 {
		v.ResetAfter = l.drains(limit, l.stored)
	}
	switch {
	case units == 0:
	case units > limit.Most():
		v.Allowed, v.Reason, v.RetryAfter = false, ratelimit.ReasonNever, ratelimit.Never
	case now+uint64(units)<<shift > most:
		v.Allowed, v.Reason = false, ratelimit.ReasonExceeded
		v.RetryAfter = l.drains(limit, l.stored+uint64(units)<<shift-most)
	}
	return v
}

// now returns the level as it is now.
func (l level) now(limit *ratelimit.Limit) uint64 {
	num, den := limit.Drain()
	return arith.Less(l.stored, arith.MulDiv(l.since, num, den))
}

// drains returns how long it takes from now until some steps of the stored level
// have drained, rounded up.
func (l level) drains(limit *ratelimit.Limit, steps uint64) time.Duration {
	num, den := limit.Drain()
	return micros(int64(min(arith.Less(arith.MulDivUp(steps, den, num), l.since), maxDouble)))
}
