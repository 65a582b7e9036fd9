package memory

import (
	"math/big"
	"time"

	"github.com/protolimit/ratelimit"
)

// A model is docs/algorithms.md, as plain as it can be written: a map, sums and
// products of any size, and no thought of memory or speed.
type model struct {
	states map[modelKey]*modelState
	serial uint64
}

type modelKey struct {
	bucket    string
	algorithm ratelimit.Algorithm
	key       string
}

type modelState struct {
	stored   *ratelimit.Limit // the limit of the last change
	level    *big.Int
	at       int64
	current  int64
	previous int64
	entries  []modelEntry
	seen     int64 // the latest time since the last change
}

type modelEntry struct {
	at, cost int64
	serial   uint64
}

func newModel() *model { return &model{states: map[modelKey]*modelState{}} }

func keyOf(l *ratelimit.Limit, key []byte) modelKey {
	return modelKey{l.Bucket(), l.Algorithm(), string(key)}
}

func bigInt(n int64) *big.Int { return big.NewInt(n) }

// quo returns a × b ÷ c, rounded down or up.
func quo(a, b, c *big.Int, up bool) *big.Int {
	q, r := new(big.Int).QuoRem(new(big.Int).Mul(a, b), c, new(big.Int))
	if up && r.Sign() > 0 {
		q.Add(q, bigInt(1))
	}
	return q
}

func minBig(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func toWait(us *big.Int) time.Duration {
	us = minBig(us, bigInt(1<<53-1))
	return time.Duration(us.Int64()) * time.Microsecond
}

func fraction(l *ratelimit.Limit) (num, den *big.Int) {
	n, d := l.Drain()
	return new(big.Int).SetUint64(n), new(big.Int).SetUint64(d)
}

func steps(l *ratelimit.Limit, units int64) *big.Int {
	return new(big.Int).Lsh(bigInt(units), uint(l.Shift()))
}

// at returns the state of a bucket as it is at now under l, all of it a copy.
func (m *model) at(l *ratelimit.Limit, key []byte, now int64) modelState {
	s, ok := m.states[keyOf(l, key)]
	if !ok {
		return modelState{stored: l, level: bigInt(0), at: now}
	}
	c := *s
	c.at = min(c.at, now)
	length := l.Window().Microseconds()
	switch l.Algorithm() {
	case ratelimit.FixedWindow:
		if c.at/length != now/length {
			c.current = 0
		}
	case ratelimit.SlidingWindow:
		if old := s.stored.Window().Microseconds(); old != length {
			c.current, c.previous = min(slid(&c, old, c.at), 1<<53-1), 0
		}
		switch now/length - c.at/length {
		case 0:
		case 1:
			c.current, c.previous = 0, c.current
		default:
			c.current, c.previous = 0, 0
		}
	case ratelimit.SlidingLog:
		c.entries = nil
		for _, e := range s.entries {
			e.at = min(e.at, now)
			if now-e.at < length {
				c.entries = append(c.entries, e)
			}
		}
	default:
		c.level = new(big.Int).Set(s.level)
		switch {
		case s.stored.Shift() < l.Shift():
			c.level = minBig(c.level.Lsh(c.level, 10), bigInt(1<<53-1))
		case s.stored.Shift() > l.Shift():
			c.level = quo(c.level, bigInt(1), bigInt(1<<10), true)
		}
	}
	return c
}

// drained returns the level of c at now.
func (c *modelState) drained(l *ratelimit.Limit, now int64) *big.Int {
	num, den := fraction(l)
	level := new(big.Int).Sub(c.level, quo(bigInt(now-c.at), num, den, false))
	if level.Sign() < 0 {
		level.SetInt64(0)
	}
	return level
}

func slid(c *modelState, length, now int64) int64 {
	left := length - now%length
	return c.current + quo(bigInt(c.previous), bigInt(left), bigInt(length), true).Int64()
}

func (c *modelState) logUsed() int64 {
	used := int64(0)
	for _, e := range c.entries {
		used += e.cost
	}
	return used
}

// verdict answers a sum; charged tells that it is charged.
func (m *model) verdict(l *ratelimit.Limit, key []byte, sum, now int64, charge bool) (v ratelimit.Verdict, next modelState) {
	v.Allowed = true
	if sum > l.Most() {
		v = ratelimit.Verdict{Reason: ratelimit.ReasonNever, RetryAfter: ratelimit.Never}
	}
	if l.Most() == 0 {
		return v, next
	}
	c := m.at(l, key, now)
	if v.Allowed && sum > 0 {
		if wait := c.passesAfter(l, sum, now); wait.Sign() > 0 {
			v = ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: toWait(wait)}
		}
	}
	if charge && sum > 0 && v.Allowed {
		m.add(&c, l, sum, now)
		v.Receipt.At = now
		switch l.Algorithm() {
		case ratelimit.FixedWindow, ratelimit.SlidingWindow:
			v.Receipt.Entry = uint64(l.Window().Microseconds())
		case ratelimit.SlidingLog:
			v.Receipt.Entry = m.serial
		}
	}
	left, reset := c.tell(l, now)
	v.Remaining = max(0, left)
	v.ResetAfter = toWait(reset)
	return v, c
}

// add charges sum to c at now.
func (m *model) add(c *modelState, l *ratelimit.Limit, sum, now int64) {
	if l.Algorithm() == ratelimit.SlidingLog {
		m.serial++
		if sum = min(sum, 1<<53-1-c.logUsed()); sum > 0 {
			c.entries = append(c.entries, modelEntry{now, sum, m.serial})
		}
	} else {
		c.current = min(c.current+min(sum, 1<<53-1), 1<<53-1)
	}
	c.level = minBig(new(big.Int).Add(c.drained(l, now), steps(l, sum)), bigInt(1<<53-1))
	c.at, c.seen, c.stored = now, now, l
}

// passesAfter returns how many µs it takes until sum has room, or 0 or less.
func (c *modelState) passesAfter(l *ratelimit.Limit, sum, now int64) *big.Int {
	length, count := l.Window().Microseconds(), l.Most()
	left := length - now%length
	switch l.Algorithm() {
	case ratelimit.FixedWindow:
		if c.current+sum <= count {
			return bigInt(0)
		}
		return bigInt(left)
	case ratelimit.SlidingWindow:
		if slid(c, length, now)+sum <= count {
			return bigInt(0)
		}
		if room := count - sum - c.current; room >= 0 {
			return new(big.Int).Sub(bigInt(left), quo(bigInt(room), bigInt(length), bigInt(c.previous), false))
		}
		wait := new(big.Int).Sub(bigInt(length), quo(bigInt(count-sum), bigInt(length), bigInt(c.current), false))
		if wait.Sign() < 0 {
			wait.SetInt64(0)
		}
		return wait.Add(wait, bigInt(left))
	case ratelimit.SlidingLog:
		used := c.logUsed()
		for _, e := range c.entries {
			if used+sum > count && used-e.cost+sum <= count {
				return bigInt(e.at + length - now)
			}
			used -= e.cost
		}
		return bigInt(0)
	default:
		if new(big.Int).Add(c.drained(l, now), steps(l, sum)).Cmp(steps(l, count)) <= 0 {
			return bigInt(0)
		}
		num, den := fraction(l)
		need := new(big.Int).Add(c.level, steps(l, sum-count))
		wait := quo(need, den, num, true)
		return wait.Sub(wait, bigInt(now-c.at))
	}
}

// tell returns what is left, and how many µs it takes until nothing is used.
func (c *modelState) tell(l *ratelimit.Limit, now int64) (remaining int64, reset *big.Int) {
	length, count := l.Window().Microseconds(), l.Most()
	left := length - now%length
	reset = bigInt(0)
	switch l.Algorithm() {
	case ratelimit.FixedWindow:
		if c.current > 0 {
			reset = bigInt(left)
		}
		return count - c.current, reset
	case ratelimit.SlidingWindow:
		if c.current > 0 {
			reset = bigInt(left + length)
		} else if c.previous > 0 {
			reset = bigInt(left)
		}
		return count - slid(c, length, now), reset
	case ratelimit.SlidingLog:
		if n := len(c.entries); n > 0 {
			reset = bigInt(c.entries[n-1].at + length - now)
		}
		return count - c.logUsed(), reset
	default:
		level := c.drained(l, now)
		if level.Sign() > 0 {
			num, den := fraction(l)
			reset = quo(c.level, den, num, true)
			reset.Sub(reset, bigInt(now-c.at))
		}
		free := new(big.Int).Sub(steps(l, count), level)
		return new(big.Int).Rsh(free, uint(l.Shift())).Int64(), reset
	}
}

// take is Take.
func (m *model) take(charges []ratelimit.Charge, now int64) []ratelimit.Verdict {
	sums := map[modelKey]int64{}
	first := map[modelKey]*ratelimit.Limit{}
	for _, c := range charges {
		k := keyOf(c.Limit, c.Key)
		sums[k] += c.Cost
		if first[k] == nil {
			first[k] = c.Limit
		}
	}
	fits := true
	for _, c := range charges {
		k := keyOf(c.Limit, c.Key)
		v, _ := m.verdict(first[k], c.Key, sums[k], now, false)
		fits = fits && v.Allowed
	}
	verdicts := map[modelKey]ratelimit.Verdict{}
	out := make([]ratelimit.Verdict, len(charges))
	for i, c := range charges {
		k := keyOf(c.Limit, c.Key)
		if _, done := verdicts[k]; !done {
			v, next := m.verdict(first[k], c.Key, sums[k], now, fits)
			verdicts[k] = v
			if v.Receipt.At != 0 {
				m.states[k] = &next
			}
		}
		out[i] = verdicts[k]
	}
	return out
}

// adjust is Adjust for one delta.
func (m *model) adjust(d *ratelimit.Delta, now int64) {
	l := d.Limit
	if l.Most() == 0 || d.Units == 0 {
		return
	}
	k := keyOf(l, d.Key)
	before, known := m.states[k]
	c := m.at(l, d.Key, now)
	if d.Units > 0 {
		m.add(&c, l, d.Units, now)
		m.states[k] = &c
		return
	}
	if !known || d.Receipt.At == 0 {
		return
	}
	if m.giveBack(&c, before, d, now) {
		c.stored, c.at, c.seen = l, now, now
		m.states[k] = &c
	}
}

// giveBack takes from c, and tells whether there was anything to take.
func (m *model) giveBack(c, before *modelState, d *ratelimit.Delta, now int64) bool {
	l := d.Limit
	length := l.Window().Microseconds()
	back := min(-d.Units, d.Cost)
	at := min(d.Receipt.At, now)
	switch l.Algorithm() {
	case ratelimit.FixedWindow, ratelimit.SlidingWindow:
		if before.stored.Window() != l.Window() || d.Receipt.Entry != uint64(length) {
			return false
		}
		counted := &c.current
		if l.Algorithm() == ratelimit.SlidingWindow && now/length-at/length == 1 {
			counted = &c.previous
		} else if now/length != at/length {
			return false
		}
		back = min(back, *counted)
		*counted -= back
		return back > 0
	case ratelimit.SlidingLog:
		for i := range c.entries {
			if e := &c.entries[i]; e.serial == d.Receipt.Entry {
				back = min(back, e.cost)
				e.cost -= back
				if e.cost == 0 {
					c.entries = append(c.entries[:i:i], c.entries[i+1:]...)
				}
				return back > 0
			}
		}
		return false
	default:
		num, den := fraction(l)
		still := new(big.Int).Sub(steps(l, d.Cost), quo(bigInt(now-at), num, den, true))
		level := c.drained(l, now)
		give := minBig(minBig(steps(l, -d.Units), still), level)
		c.level = new(big.Int).Sub(level, give)
		return give.Sign() > 0
	}
}
