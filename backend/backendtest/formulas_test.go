package backendtest

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// TestFormulas compares the formulas of docs/algorithms.md for waits with the
// shortest waits that help, on random states.
func TestFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	m := newMaker(r, false)
	for range 4000 {
		n := m.numbers(ratelimit.Algorithm(r.IntN(len(everyAlgorithm))))
		l, err := ratelimit.NewLimit("b", n.rule())
		if err != nil {
			t.Fatal(err)
		}
		if l.Most() == 0 {
			continue
		}
		now := epoch.UnixMicro() + r.Int64N(2*length(l))
		s := randomState(r, l, now)
		cost := 1 + r.Int64N(l.Most())
		v := judge(s, l, now, cost)
		if reset := resetFormula(s, l, now); v.ResetAfter != told53(reset) {
			t.Fatalf("%v with %+v at %d: reset after %v by the formula, want %v", l, s, now, told53(reset), v.ResetAfter)
		}
		if v.Allowed {
			continue
		}
		if retry := retryFormula(s, l, now, cost); v.RetryAfter != told53(retry) {
			t.Fatalf("%v with %+v at %d, cost %d: retry after %v by the formula, want %v", l, s, now, cost, told53(retry), v.RetryAfter)
		}
	}
}

// told53 returns a wait as it is told.
func told53(micros *big.Int) time.Duration {
	return time.Duration(least(micros, big.NewInt(maxMicros)).Int64()) * µs
}

// randomState returns a state of l, last changed not long before now, which may
// be past the limit.
func randomState(r *rand.Rand, l *ratelimit.Limit, now int64) state {
	at := now - r.Int64N(length(l)+1)
	count := func() int64 { return r.Int64N(l.Most() + l.Most()/4 + 1) }
	switch l.Algorithm() {
	case ratelimit.FixedWindow:
		return windowState{count: count(), time: at, length: length(l)}
	case ratelimit.SlidingWindow:
		return slidingState{current: count(), previous: count(), time: at, length: length(l)}
	case ratelimit.SlidingLog:
		var log logState
		for i := range r.IntN(6) {
			log = append(log, logEntry{time: now - r.Int64N(length(l)+1), cost: 1 + r.Int64N(l.Most()), number: uint64(i)})
		}
		slices.SortFunc(log, func(a, b logEntry) int { return int(a.time - b.time) })
		return log
	}
	level := steps(l, count())
	level.Add(level, big.NewInt(r.Int64N(1<<l.Shift())))
	num, _ := l.Drain()
	return levelState{level: level, shift: l.Shift(), time: now - r.Int64N(1+min(length(l), maxMicros/int64(num>>40+1)))}
}

// retryFormula is "retry after" as docs/algorithms.md states it.
func retryFormula(s state, l *ratelimit.Limit, now, cost int64) *big.Int {
	left := length(l) - now%length(l)
	switch s := s.(type) {
	case levelState:
		need := steps(l, cost-l.Most())
		return s.untilDrained(l, now, need.Add(need, s.level))
	case slidingState:
		current, previous := s.at(l, now)
		if room := l.Most() - cost - current; room >= 0 {
			return big.NewInt(left - scaled(room, length(l), previous, false))
		}
		return big.NewInt(left + max(0, length(l)-scaled(l.Most()-cost, length(l), current, false)))
	case logState:
		kept := s.at(l, now)
		used := kept.total()
		for _, e := range kept {
			used -= e.cost
			if used+cost <= l.Most() {
				return big.NewInt(e.time + length(l) - now)
			}
		}
	}
	return big.NewInt(left)
}

// resetFormula is "reset after" as docs/algorithms.md states it.
func resetFormula(s state, l *ratelimit.Limit, now int64) *big.Int {
	if s.used(l, now).Sign() == 0 {
		return new(big.Int)
	}
	left := length(l) - now%length(l)
	switch s := s.(type) {
	case levelState:
		return s.untilDrained(l, now, s.level)
	case slidingState:
		if current, _ := s.at(l, now); current > 0 {
			return big.NewInt(left + length(l))
		}
	case logState:
		kept := s.at(l, now)
		return big.NewInt(kept[len(kept)-1].time + length(l) - now)
	}
	return big.NewInt(left)
}

// untilDrained returns ceil(steps × den ÷ num) - elapsed.
func (s levelState) untilDrained(l *ratelimit.Limit, now int64, steps *big.Int) *big.Int {
	num, den := l.Drain()
	wait := new(big.Int).Mul(steps, new(big.Int).SetUint64(den))
	wait = ceilDiv(wait, new(big.Int).SetUint64(num))
	return wait.Sub(wait, big.NewInt(now-s.time))
}
