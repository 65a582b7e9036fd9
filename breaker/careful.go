package breaker

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// carefulTime is how long calls of several shards are judged before they are
// charged, after one was given back.
const carefulTime = time.Second

// careful tells whether that is so.
type careful struct{ until atomic.Int64 } // ns since the backend was made

func (c *careful) now(at time.Duration) bool { return int64(at) < c.until.Load() }

func (c *careful) start(at time.Duration) { c.until.Store(int64(at + carefulTime)) }

// askWithCare asks about the live pieces so that a call that is refused charges
// nothing: it first reads all, then charges those that seem to have no room or else
// the one with the least left, and the others if these grant. What a refused call
// holds until it is given back drains away, so that many of them would use up what
// others may have of its buckets.
//
// If a shard cannot be read in half of the time, all are asked without more care.
func (b *Backend) askWithCare(ctx context.Context, start time.Time, s *split) {
	within, cancel := context.WithDeadline(ctx, start.Add(b.budget))
	defer cancel()
	if !b.readAll(within, start, s) {
		b.askAll(ctx, within, s.live)
		return
	}
	first, rest := s.tightest()
	b.askAll(ctx, within, first)
	for _, p := range first {
		if p.err == nil && !p.granted() {
			return
		}
	}
	b.askAll(ctx, within, rest)
}

// readAll reads what the live pieces have left, and tells whether it could. The
// breakers do not hear of it.
func (b *Backend) readAll(ctx context.Context, start time.Time, s *split) bool {
	within, cancel := context.WithDeadline(ctx, start.Add(b.budget/2))
	defer cancel()
	costs := s.readOnly()
	defer s.restore(costs)
	together(s.live, func(p *piece) { p.err = b.ask(within, p.charges, p.verdicts) })
	return !slices.ContainsFunc(s.live, func(p *piece) bool { return p.err != nil })
}

// readOnly makes the live pieces' charges reads and returns what they cost.
func (s *split) readOnly() (costs []int64) {
	for _, p := range s.live {
		for i := range p.charges {
			costs = append(costs, p.charges[i].Cost)
			p.charges[i].Cost = 0
		}
	}
	return costs
}

// restore undoes readOnly.
func (s *split) restore(costs []int64) {
	for _, p := range s.live {
		for i := range p.charges {
			p.charges[i].Cost, costs = costs[0], costs[1:]
		}
	}
}

// tightest returns, of the pieces that were read, those that lack room or else the
// one with the least left, and the rest.
func (s *split) tightest() (first, rest []*piece) {
	tight := s.live[0]
	for _, p := range s.live {
		if p.left() < tight.left() {
			tight = p
		}
	}
	for _, p := range s.live {
		if p == tight || p.left() < 0 {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	return first, rest
}

// left returns what a piece would leave of its buckets, the least of them, below 0
// if one lacks room.
func (p *piece) left() int64 {
	least := int64(math.MaxInt64)
	for i := range p.charges {
		if p.charges[i].Cost > 0 {
			least = min(least, p.verdicts[i].Remaining-p.sum(i))
		}
	}
	return least
}
