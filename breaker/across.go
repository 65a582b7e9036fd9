package breaker

import (
	"context"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// takeApart decides a call whose charges are in several shards: the primary those
// that it can, each shard apart, then the fallback the others. What one granted is
// given back if another refuses.
func (b *Backend) takeApart(ctx context.Context, start time.Time, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	s := b.splits.Get().(*split)
	defer b.splits.Put(s)
	defer s.free()
	s.reset(b, start, charges)
	for i := range s.pieces[:s.used] {
		p := &s.pieces[i]
		if !p.guard.isOpen() {
			s.live = append(s.live, p)
		} else if err := b.leaveOut(s, p); err != nil {
			return err
		}
	}
	for {
		p := b.askLive(ctx, start, s)
		if p == nil {
			break
		}
		// Its probes are under way, and nothing was sent.
		s.live = slices.DeleteFunc(s.live, func(l *piece) bool { return l == p })
		if err := b.leaveOut(s, p); err != nil {
			return err
		}
	}
	granted, err := b.settleApart(ctx, s)
	b.giveBack(ctx, start, s, err != nil || !granted)
	if err != nil {
		return err
	}
	for _, p := range s.live {
		if p.err == nil {
			b.marks.set(p, start.Sub(b.guards.start))
			p.copy(verdicts)
			b.learn(p.charges, p.verdicts, p.guard)
		}
	}
	s.gone.copy(verdicts)
	return nil
}

// leaveOut has a piece decided without the primary, whose breaker is in the way.
// The error is that of a rule that says Deny.
func (b *Backend) leaveOut(s *split, p *piece) error {
	if err := b.denies(p.guard, p.charges, errAway); err != nil {
		return err
	}
	p.err = errAway
	s.lose(p)
	return nil
}

// askLive asks the primary about the live pieces. If the breaker of one lets
// nothing through, that is returned, and nothing is asked.
func (b *Backend) askLive(ctx context.Context, start time.Time, s *split) (refused *piece) {
	if len(s.live) == 0 {
		return nil
	}
	var probes []*piece
	for _, p := range s.live {
		if p.turn < 0 {
			probes = append(probes, p)
		}
	}
	return b.probeAll(ctx, probes, func() {
		switch at := start.Sub(b.guards.start); {
		case b.careful.now(at) && b.judgeGone(ctx, s):
			b.readForRefusal(ctx, s)
		case len(s.live) == 1:
			b.askOne(ctx, ctx, s.live[0])
		case b.marks.met(s.live, at):
			b.askWhole(ctx, s)
		case b.careful.now(at):
			b.askWithCare(ctx, start, s)
		default:
			b.askAll(ctx, ctx, s.live)
		}
	})
}

// probeAll asks under the breakers of pieces that are not closed, one inside the
// other, and tells each how its own shard did.
func (b *Backend) probeAll(ctx context.Context, probes []*piece, ask func()) (refused *piece) {
	if len(probes) == 0 {
		ask()
		return nil
	}
	p := probes[0]
	if !p.guard.probe(b, func() error {
		if refused = b.probeAll(ctx, probes[1:], ask); refused != nil {
			return errNeutral
		}
		if p.others || p.cut {
			return errNeutral
		}
		return p.guard.judge(ctx, p.err, p.slow)
	}) {
		return p
	}
	return refused
}

// settleApart has the fallback decide what the primary did not, and tells whether
// all of the call is granted. An error is that of a rule that says Deny, or of a
// caller who left.
func (b *Backend) settleApart(ctx context.Context, s *split) (granted bool, err error) {
	granted = len(s.judged.charges) == 0
	for _, p := range s.live {
		switch {
		case p.err == nil:
			granted = granted && p.granted()
		case isCallers(ctx, p.err):
			return false, p.err
		default:
			b.counts.met(p.err)
			if err := b.denies(p.guard, p.charges, p.err); err != nil {
				return false, err
			}
			s.lose(p)
		}
	}
	if len(s.gone.charges) == 0 {
		return granted, nil
	}
	if !granted { // the rest is only told
		for i := range s.gone.charges {
			s.gone.charges[i].Cost = 0
		}
	}
	if err := b.decideLocally(ctx, s.gone.charges, s.gone.answers(), func(i int) bool { return s.unsent[i] }); err != nil {
		return false, err
	}
	s.judged.copy(s.gone.verdicts)
	for i := range s.gone.verdicts {
		granted = granted && s.gone.verdicts[i].Allowed
	}
	return granted, nil
}

// copy puts the part's verdicts in their places.
func (p *part) copy(verdicts []ratelimit.Verdict) {
	for i, place := range p.places {
		verdicts[place] = p.verdicts[i]
	}
}

// giveBack gives back what the primary charged for a call that is not granted as a
// whole. It waits for that as long as the call has time; what cannot be given back
// drains.
func (b *Backend) giveBack(ctx context.Context, start time.Time, s *split, refused bool) {
	var deltas []ratelimit.Delta
	for _, p := range s.live {
		if !refused || p.err != nil {
			continue
		}
		for i := range p.charges {
			c, v := &p.charges[i], &p.verdicts[i]
			if v.Receipt.At != 0 && c.Cost > 0 {
				deltas = append(deltas, ratelimit.Delta{Limit: c.Limit, Key: slices.Clone(c.Key), Cost: c.Cost, Units: -c.Cost, Receipt: v.Receipt})
				v.Receipt, v.Remaining = ratelimit.Receipt{}, v.Remaining+p.sum(i)
			}
		}
	}
	if len(deltas) == 0 {
		return
	}
	b.careful.start(start.Sub(b.guards.start))
	done := make(chan struct{})
	started := b.behind.start(func(ctx context.Context) {
		defer close(done)
		within, cancel := context.WithTimeout(ctx, 10*b.budget)
		defer cancel()
		_ = b.adjustWithin(within, deltas)
	})
	if !started {
		return
	}
	timer := time.NewTimer(b.budget - b.now().Sub(start))
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}
