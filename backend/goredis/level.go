package goredis

import (
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

// A level is the state of a bucket of TOKEN_BUCKET or LEAKY_BUCKET.
type level struct {
	stored uint64 // when it was stored, in steps of its limit
	since  uint64 // µs since then
}

// What bucket.lua and buckets.lua say of a call, and of the form of a state
// (common.lua).
const (
	saysCharged   = '+'
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

// readState reads what bucket.lua says of the request.
func (r *request) readState(reply string) (ok bool) {
	b := &r.buckets[0]
	var l level
	switch size := len(reply); size {
	case 1:
		r.large = reply[0] == saysUndecided
		if reply[0] == saysForeign {
			r.err = errForeign(b.limit)
		}
		return r.large || r.err != nil
	case shortSize, longSize:
		var at int64
		l, at = readLevel(reply, b.limit)
		r.granted = true
		b.verdict = l.verdict(b.limit, 0)
		b.verdict.Receipt.At = at
	case 8, 8 + shortSize, 8 + longSize:
		if size > 8 {
			l = levelAt(reply[8:], b.limit, double(reply))
		}
		r.granted = b.units == 0
		b.verdict = l.verdict(b.limit, b.units)
	default:
		return false
	}
	return true
}

// readStates reads what buckets.lua says of the request from the head of reply,
// and returns the rest.
func (r *request) readStates(reply string, now int64) (rest string, ok bool) {
	for i := range r.buckets {
		if len(reply) < 2 {
			return "", false
		}
		b := &r.buckets[i]
		says, form := reply[0], reply[1]
		reply = reply[2:]
		var l level
		switch {
		case form == formShort && len(reply) >= shortSize:
			l, reply = levelAt(reply[:shortSize], b.limit, now), reply[shortSize:]
		case form == formLong && len(reply) >= longSize:
			l, reply = levelAt(reply[:longSize], b.limit, now), reply[longSize:]
		case form == formForeign:
			r.err = errForeign(b.limit)
		case form != formNone:
			return "", false
		}
		r.granted, r.large = says == saysCharged, says == saysUndecided
		if !r.granted {
			b.verdict = l.verdict(b.limit, b.units)
			continue
		}
		b.verdict = l.verdict(b.limit, 0)
		if b.units > 0 {
			b.verdict.Receipt.At = now
		}
	}
	return reply, true
}

// levelAt reads a state as it is at now.
func levelAt(s string, limit *ratelimit.Limit, now int64) level {
	l, at := readLevel(s, limit)
	l.since = uint64(max(now-at, 0))
	return l
}

// readLevel reads a state of 12 or 25 bytes, and when it was stored.
func readLevel(s string, limit *ratelimit.Limit) (l level, at int64) {
	if len(s) == shortSize {
		low, high := number48(s), number48(s[6:])
		l.stored = inSteps(high>>13-shortMark, shortShift, limit.Shift())
		return l, int64(low | high&15<<48)
	}
	l.stored = inSteps(uint64(double(s[1:])), s[0], limit.Shift())
	return l, double(s[9:])
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
