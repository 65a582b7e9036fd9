package backendtest

import (
	"math/big"
	"time"

	"github.com/protolimit/ratelimit"
)

// maxMicros is the longest wait that is told, and the largest count that a
// window or a log, and the largest number of steps that a level can hold.
const maxMicros = 1<<53 - 1

// judge returns the verdict of a sum on s, were it alone in its call and not
// charged.
func judge(s state, l *ratelimit.Limit, now, cost int64) ratelimit.Verdict {
	if l.Most() == 0 {
		return decided(cost == 0, cost > 0, ratelimit.Verdict{})
	}
	v := ratelimit.Verdict{Remaining: left(s, l, now)}
	if s.used(l, now).Sign() > 0 {
		v.ResetAfter = shortest(length(l), func(wait int64) bool { return s.used(l, now+wait).Sign() == 0 })
	}
	room := steps(l, l.Most())
	room.Sub(room, steps(l, cost))
	fits := func(at int64) bool { return s.used(l, at).Cmp(room) <= 0 }
	v = decided(cost == 0 || fits(now), cost > l.Most(), v)
	if v.Reason == ratelimit.ReasonExceeded {
		v.RetryAfter = shortest(length(l), func(wait int64) bool { return fits(now + wait) })
	}
	return v
}

// decided fills in v whether it passes, and why not.
func decided(passes, never bool, v ratelimit.Verdict) ratelimit.Verdict {
	switch {
	case passes:
		v.Allowed = true
	case never:
		v.Reason, v.RetryAfter = ratelimit.ReasonNever, ratelimit.Never
	default:
		v.Reason = ratelimit.ReasonExceeded
	}
	return v
}

// left returns the whole units that are left at now.
func left(s state, l *ratelimit.Limit, now int64) int64 {
	unused := steps(l, l.Most())
	unused.Sub(unused, s.used(l, now))
	if unused.Sign() < 0 {
		return 0
	}
	return unused.Div(unused, steps(l, 1)).Int64()
}

// steps returns units in what l counts in: the steps of a level, or units.
func steps(l *ratelimit.Limit, units int64) *big.Int {
	n := big.NewInt(units)
	if l.Algorithm().HasBurst() {
		n.Lsh(n, uint(l.Shift()))
	}
	return n
}

// shortest returns the shortest wait in µs, 1 to the longest that is told, after
// which ok holds, as it does after all longer ones; or the longest. A guess that
// is not much above the answer makes it quick.
func shortest(guess int64, ok func(wait int64) bool) time.Duration {
	low, high := int64(1), guess
	for high < maxMicros && !ok(high) {
		low, high = high+1, 2*high
	}
	high = min(high, maxMicros)
	for low < high {
		middle := low + (high-low)/2
		if ok(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return time.Duration(low) * time.Microsecond
}

// length returns the length of l's window in µs.
func length(l *ratelimit.Limit) int64 { return l.Window().Microseconds() }

// scaled returns n × a ÷ b, rounded down or up. None is negative.
func scaled(n, a, b int64, up bool) int64 {
	product := new(big.Int).Mul(big.NewInt(n), big.NewInt(a))
	rest := new(big.Int)
	product.QuoRem(product, big.NewInt(b), rest)
	if up && rest.Sign() > 0 {
		product.Add(product, big.NewInt(1))
	}
	return product.Int64()
}
