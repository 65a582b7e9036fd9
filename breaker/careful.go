package breaker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// carefulTime is how long calls of several shards are judged before they are
// charged, after one was given back, and how long they are not, after that took
// time which the call did not have.
const carefulTime = time.Second

// careful tells whether that is so.
type careful struct{ until, not atomic.Int64 } // ns since the backend was made

func (c *careful) now(at time.Duration) bool {
	return int64(at) < c.until.Load() && int64(at) >= c.not.Load()
}

func (c *careful) start(at time.Duration) { c.until.Store(int64(at + carefulTime)) }

func (c *careful) pause(at time.Duration) { c.not.Store(int64(at + carefulTime)) }

// errNoTime is the error of a piece that was not asked, since what went before took
// all of the call's time.
var errNoTime = fmt.Errorf("no time was left to ask: %w", errAway)

// askWithCare asks about the live pieces so that a call that is refused charges
// nothing: it first reads all, then charges the one that seems to have no room, or
// else the least, and the others if that grants. What a refused call
// holds until it is given back drains away, so that many of them would use up what
// others may have of its buckets.
//
// If a shard cannot be read in a third of the time, which is what each of the three
// steps has, all are asked without more care. One that then runs out of what time
// is left may be well, so its breaker does not hear of it; instead the calls of the
// next second give each shard all of their time.
func (b *Backend) askWithCare(ctx context.Context, start time.Time, s *split) {
	within, cancel := context.WithDeadline(ctx, start.Add(b.budget))
	defer cancel()
	if !b.readAll(within, start, s) {
		b.askAll(ctx, within, s.live)
	} else if first, rest := s.tightest(); b.grants(ctx, within, first) {
		b.askAll(ctx, within, rest)
	} else {
		for _, p := range rest {
			p.refuse()
		}
	}
	if slices.ContainsFunc(s.live, func(p *piece) bool { return p.cut }) {
		b.careful.pause(start.Sub(b.guards.start))
	}
}

// grants asks about a piece, and tells whether the others are to be asked then.
func (b *Backend) grants(ctx, within context.Context, p *piece) bool {
	b.askOne(ctx, within, p)
	return p.err != nil || p.granted()
}

// readAll reads what the live pieces have left, and tells whether it could in a
// third of the time. The breakers do not hear of it.
func (b *Backend) readAll(ctx context.Context, start time.Time, s *split) bool {
	until := start.Add(b.budget / 3)
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	costs := s.readOnly()
	defer s.restore(costs)
	together(s.live, func(p *piece) { p.err = b.ask(within, p.charges, p.verdicts) })
	if b.now().After(until) || within.Err() != nil {
		b.careful.pause(start.Sub(b.guards.start))
		return false
	}
	return !slices.ContainsFunc(s.live, func(p *piece) bool { return p.err != nil })
}

// judgeGone tells whether the fallback has no room for what it is to decide, so that
// the call is refused whatever the primary says. It reads that first, and keeps what
// refuses: the fallback may have room when it is asked for the rest.
func (b *Backend) judgeGone(ctx context.Context, s *split) (refused bool) {
	j, instances := &s.judged, b.Instances()
	j.reset()
	for i, c := range s.gone.charges {
		if c.Limit.OnUnavailable() != ratelimit.Allow {
			c.Limit = b.shares.of(c.Limit, instances)
			j.add(i, c)
		}
	}
	if len(j.charges) == 0 {
		return false
	}
	reads := slices.Clone(j.charges)
	for i := range reads {
		reads[i].Cost = 0
	}
	refused = b.fallback.Take(ctx, reads, j.answers()) == nil && j.wait() > 0
	if !refused {
		j.reset()
		return false
	}
	j.refuse()
	return true
}

// readForRefusal reads the live pieces of a call that the fallback refuses. Their
// breakers hear of it, as if they had been charged.
func (b *Backend) readForRefusal(ctx context.Context, s *split) {
	costs := s.readOnly()
	b.askAll(ctx, ctx, s.live)
	s.restore(costs)
	for _, p := range s.live {
		if p.err == nil {
			p.refuse()
		}
	}
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
