package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/protolimit/ratelimit"
)

// A trace is calls on a few buckets, as data: it can be run again, in part, on
// other buckets.
type trace []op

// An op steps the clock and makes one call: of Take where it has asks, else of
// Adjust.
type op struct {
	number int // in the trace as it was made
	step   time.Duration
	asks   []ask
	change change
}

// An ask is one charge.
type ask struct {
	numbers numbers
	bucket  int
	key     string
	cost    int64
}

// numbers are those of a limit.
type numbers struct {
	algorithm ratelimit.Algorithm
	rate      ratelimit.Rate
	burst     int64
}

// A change is an adjustment of an earlier ask, by the number of its op and its
// place in it, under numbers that may be other ones.
type change struct {
	op, ask int
	numbers numbers
	units   int64
}

// String returns the trace in lines, each with the time since the first.
func (t trace) String() string {
	var b strings.Builder
	at := time.Duration(0)
	for _, o := range t {
		at += o.step
		fmt.Fprintf(&b, "  %d: at %v", o.number, at)
		for _, a := range o.asks {
			fmt.Fprintf(&b, " take(bucket %d, key %q, %v, cost %d)", a.bucket, a.key, a.numbers, a.cost)
		}
		if len(o.asks) == 0 {
			fmt.Fprintf(&b, " adjust(charge %d of call %d, %v, units %d)", o.change.ask, o.change.op, o.change.numbers, o.change.units)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the numbers as an annotation would state them.
func (n numbers) String() string {
	s := n.algorithm.String() + " " + n.rate.String()
	if n.burst != 0 {
		s += fmt.Sprintf(" burst %d", n.burst)
	}
	return s
}

// A maker makes traces.
type maker struct {
	*rand.Rand
	split   bool
	buckets []numbers     // the numbers that each bucket has now
	retry   time.Duration // what the latest refusal told
	passed  []change      // the asks that were granted
}

func newMaker(r *rand.Rand, split bool) *maker {
	m := &maker{Rand: r, split: split}
	for range 1 + r.IntN(3) {
		m.buckets = append(m.buckets, m.numbers(ratelimit.Algorithm(r.IntN(len(everyAlgorithm)))))
	}
	return m
}

// numbers returns those of a limit: mostly small ones, some at the ends.
func (m *maker) numbers(a ratelimit.Algorithm) numbers {
	for {
		n := numbers{algorithm: a, rate: ratelimit.Rate{
			Count:  pick(m.Rand, 1, 2, 3, 5, 7, 10, m.Int64N(20), m.Int64N(1000), 10_000),
			Window: pick(m.Rand, ms, 3*ms, 100*ms, sec, 3*sec, 7*sec, mins, hour, day),
		}}
		if m.IntN(8) == 0 {
			n.rate.Count = pick(m.Rand, int64(1), 1<<31-1, 1_000_000, 999_999_937, ratelimit.MaxCount)
			n.rate.Window = pick(m.Rand, sec, hour, week, ratelimit.MaxWindow)
		}
		if a.HasBurst() && n.rate.Count > 0 && m.IntN(2) == 0 {
			n.burst = pick(m.Rand, int64(1), 2, 3, 10, 1+m.Int64N(50), 1<<32, 1<<32+1, ratelimit.MaxCount)
		}
		rule := n.rule()
		if _, err := ratelimit.NewLimit("", rule); err == nil {
			return n
		}
	}
}

func (n numbers) rule() ratelimit.Rule {
	return ratelimit.Rule{Algorithm: n.algorithm, Rate: n.rate, Burst: n.burst}
}

// op returns the next op.
func (m *maker) op(number int) op {
	if m.IntN(12) == 0 {
		i := m.IntN(len(m.buckets))
		a := m.buckets[i].algorithm
		if m.IntN(6) == 0 {
			a = ratelimit.Algorithm(m.IntN(len(everyAlgorithm)))
		}
		m.buckets[i] = m.numbers(a)
	}
	o := op{number: number, step: m.step()}
	if len(m.passed) > 0 && m.IntN(5) == 0 {
		o.change = m.change()
		return o
	}
	keys := []string{"a", "b", "a", "c"}
	if m.split {
		keys = []string{pick(m.Rand, keys...)}
	}
	for range pick(m.Rand, 1, 1, 1, 1, 1, 2, 2, 3, 4) {
		i := m.IntN(len(m.buckets))
		o.asks = append(o.asks, ask{
			numbers: m.buckets[i], bucket: i, key: pick(m.Rand, keys...), cost: m.cost(m.buckets[i]),
		})
	}
	return o
}

// step returns how far the clock goes before the next call.
func (m *maker) step() time.Duration {
	window := m.buckets[m.IntN(len(m.buckets))].rate.Window
	part := time.Duration(m.Int64N(int64(window/µs))) * µs
	switch m.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		return 0
	case 8, 9, 10:
		if m.retry > 0 && m.retry < 50*ratelimit.MaxWindow {
			return m.retry + pick(m.Rand, -µs, 0, 0, µs)
		}
		return part
	case 11:
		return window + pick(m.Rand, -µs, 0, µs)
	case 12:
		return window + part
	case 13:
		return -pick(m.Rand, µs, part, window, hour)
	case 14:
		return pick(m.Rand, µs, ms, part, 400*day)
	}
	return part / 8
}

// cost returns one around what n grants.
func (m *maker) cost(n numbers) int64 {
	rule := n.rule()
	most := rule.Most()
	switch m.IntN(24) {
	case 0, 1:
		return 0
	case 2:
		return most + pick(m.Rand, int64(1), 1, 1<<31-1)
	case 3, 4:
		return most
	case 5, 6, 7, 8, 9, 10, 11, 12:
		return m.Int64N(most + 1)
	case 13, 14, 15, 16, 17:
		return most / 2
	}
	return min(pick(m.Rand, int64(1), 1, 1, 2, 3), most)
}

// change returns an adjustment of one of the latest grants.
func (m *maker) change() change {
	from := max(0, len(m.passed)-6)
	i := from + m.IntN(len(m.passed)-from)
	c := m.passed[i]
	if m.IntN(4) == 0 {
		for _, n := range m.buckets {
			if n.algorithm == c.numbers.algorithm {
				c.numbers = n
			}
		}
	}
	cost := c.units
	switch m.IntN(6) {
	case 0:
		c.units = pick(m.Rand, int64(1), 2, cost, 1<<31-1, 1<<53, math.MaxInt64)
	case 1:
		c.units = -pick(m.Rand, int64(1), 2*cost, 1<<31-1, math.MaxInt64)
	case 2, 3:
		c.units = -1 - m.Int64N(cost)
	default:
		c.units = -cost
	}
	return c
}

// learn takes note of an op's verdicts.
func (m *maker) learn(o op, verdicts []ratelimit.Verdict) {
	for i, v := range verdicts {
		if v.Reason == ratelimit.ReasonExceeded {
			m.retry = v.RetryAfter
		}
		if v.Receipt.At != 0 && o.asks[i].cost > 0 {
			m.passed = append(m.passed, change{op: o.number, ask: i, numbers: o.asks[i].numbers, units: o.asks[i].cost})
		}
	}
}
