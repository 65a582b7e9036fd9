package backendtest

import (
	"math/big"

	"github.com/protolimit/ratelimit"
)

// A levelState is the state of TOKEN_BUCKET and LEAKY_BUCKET.
type levelState struct {
	level *big.Int // what was used at time, in steps
	shift uint8    // of the steps
	time  int64
}

func (s levelState) seen(now int64) state {
	s.time = min(s.time, now)
	return s
}

func (s levelState) used(l *ratelimit.Limit, now int64) *big.Int {
	level := new(big.Int).Set(s.level)
	switch {
	case s.shift < l.Shift():
		level.Lsh(level, uint(l.Shift()-s.shift))
	case s.shift > l.Shift():
		level = ceilDiv(level, new(big.Int).Lsh(big.NewInt(1), uint(s.shift-l.Shift())))
	}
	level = least(level, big.NewInt(maxMicros))
	level.Sub(level, drained(l, now-s.time, false))
	if level.Sign() < 0 {
		level.SetInt64(0)
	}
	return level
}

func (s levelState) charge(l *ratelimit.Limit, now, units int64, _ uint64) state {
	level := s.used(l, now)
	level.Add(level, steps(l, units))
	return levelState{level: least(level, big.NewInt(maxMicros)), shift: l.Shift(), time: now}
}

func (s levelState) giveBack(l *ratelimit.Limit, now int64, d *ratelimit.Delta) (state, bool) {
	still := steps(l, d.Cost)
	still.Sub(still, drained(l, max(0, now-d.Receipt.At), true))
	asked := steps(l, d.Units)
	asked.Neg(asked)
	level := s.used(l, now)
	given := least(least(asked, still), level)
	if given.Sign() <= 0 {
		return s, false
	}
	return levelState{level: level.Sub(level, given), shift: l.Shift(), time: now}, true
}

// drained returns the steps that drain in some µs, rounded down or up.
func drained(l *ratelimit.Limit, micros int64, up bool) *big.Int {
	num, den := l.Drain()
	product := new(big.Int).SetUint64(num)
	product.Mul(product, big.NewInt(micros))
	divisor := new(big.Int).SetUint64(den)
	if up {
		return ceilDiv(product, divisor)
	}
	return product.Div(product, divisor)
}

// ceilDiv returns a ÷ b rounded up. Neither is negative.
func ceilDiv(a, b *big.Int) *big.Int {
	quotient, rest := new(big.Int).QuoRem(a, b, new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
