package breaker

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// carefulTime is how long calls of several shards are judged before they are
// charged, after one was given back.
const carefulTime = time.Second

// careful tells whether that is so.
type careful struct{ until atomic.Int64 } // ns since the backend was made

func (c *careful) now(at time.Duration) bool { return int64(at) < c.until.Load() }

func (c *careful) start(at time.Duration) { c.until.Store(int64(at + carefulTime)) }

// askWithCare asks about the live pieces so that a call that is refused charges
// nothing: it first reads all, then charges the one that seems to have no room, or
// else the least, and the others if that grants. What a refused call
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
	b.askOne(ctx, within, first)
	if first.err != nil || first.granted() {
		b.askAll(ctx, within, rest)
		return
	}
	for _, p := range rest {
		p.refuse()
	}
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

// tightest returns, of the pieces that were read, the one that lacks room for
// longest or, if none does, that with the least left, and the rest.
func (s *split) tightest() (first *piece, rest []*piece) {
	first = s.live[0]
	for _, p := range s.live[1:] {
		if wait, longest := p.wait(), first.wait(); wait > longest || wait == longest && p.left() < first.left() {
			first = p
		}
	}
	for _, p := range s.live {
		if p != first {
			rest = append(rest, p)
		}
	}
	return first, rest
}

// left returns what a piece that was read would leave of its buckets, the least of
// them.
func (p *piece) left() int64 {
	least := int64(math.MaxInt64)
	for i := range p.charges {
		if p.charges[i].Cost > 0 {
			least = min(least, p.verdicts[i].Remaining-p.sum(i))
		}
	}
	return least
}

// wait returns how long a piece that was read would have to wait, 0 if it has room.
func (p *piece) wait() (longest time.Duration) {
	for i := range p.charges {
		longest = max(longest, p.waitFor(i))
	}
	return longest
}

// waitFor returns how long one charge of a piece that was read would have to wait.
func (p *piece) waitFor(i int) time.Duration {
	l, v, sum := p.charges[i].Limit, &p.verdicts[i], p.sum(i)
	switch {
	case sum <= v.Remaining:
		return 0
	case sum > l.Largest():
		return ratelimit.Never
	case !l.Algorithm().HasBurst():
		return max(v.ResetAfter, time.Microsecond)
	}
	// It has to drain until there is room, instead of until nothing is used.
	room := time.Duration(float64(l.Most()-sum) * float64(l.Rate().Window) / float64(l.Rate().Count))
	return max(v.ResetAfter-room, time.Microsecond)
}

// refuse makes what lacks room of a piece that was read a refusal.
func (p *piece) refuse() {
	for i := range p.charges {
		wait := p.waitFor(i)
		if wait == 0 {
			continue
		}
		v := &p.verdicts[i]
		v.Allowed, v.Reason, v.RetryAfter = false, ratelimit.ReasonExceeded, wait
		if wait == ratelimit.Never {
			v.Reason = ratelimit.ReasonNever
		}
	}
}
