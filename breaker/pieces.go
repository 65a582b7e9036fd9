package breaker

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/protolimit/ratelimit"
)

// A piece is what one shard gets of a call that is about several.
type piece struct {
	part
	guard *guard
	turn  int64 // of the guard
	err   error // why the primary did not decide; nil if it did
	slow  bool

	others bool // whether err is only about another shard
	vague  bool // whether err may be about another shard, so that this one may have charged
	cut    bool // whether it ran out of a part of the call's time
}

// A split is a call that is about several shards. Its pieces are asked apart, so
// that one that fails leaves what the others granted as it is.
type split struct {
	pieces []piece
	used   int
	live   []*piece // that the primary is asked about
	whole  part     // all of live
	gone   part     // what the fallback decides
	unsent []bool   // of gone's charges, which the primary cannot have charged
	judged piece    // of gone's charges, what the fallback has no room for
}

// reset makes the split the one of a call.
func (s *split) reset(b *Backend, at time.Time, charges []ratelimit.Charge) {
	s.used, s.live, s.unsent = 0, s.live[:0], s.unsent[:0]
	s.gone.reset()
	s.judged.reset()
	for i := range charges {
		s.of(b.guards.of(b.sharder.Shard(&charges[i]), at)).add(i, charges[i])
	}
	for i := range s.pieces[:s.used] {
		s.pieces[i].answers()
	}
}

// of returns the piece of a guard's shard.
func (s *split) of(g *guard) *piece {
	for i := range s.pieces[:s.used] {
		if s.pieces[i].guard == g {
			return &s.pieces[i]
		}
	}
	if s.used == len(s.pieces) {
		s.pieces = append(s.pieces, piece{})
	}
	p := &s.pieces[s.used]
	s.used++
	p.reset()
	p.guard, p.turn, p.err, p.slow = g, g.turn.Load(), nil, false
	p.others, p.vague, p.cut = false, false, false
	return p
}

// free drops what the split holds of its call.
func (s *split) free() {
	for i := range s.pieces[:s.used] {
		s.pieces[i].reset()
		s.pieces[i].guard, s.pieces[i].err = nil, nil
	}
	s.whole.reset()
	s.gone.reset()
	s.judged.reset()
	clear(s.live)
}

// lose hands a piece to the fallback.
func (s *split) lose(p *piece) {
	for i, place := range p.places {
		s.gone.add(place, p.charges[i])
		s.unsent = append(s.unsent, !p.vague && isUnsent(p.err))
	}
}

// granted tells whether the primary decided a piece, and allows all of it.
func (p *piece) granted() bool {
	for i := range p.verdicts {
		if !p.verdicts[i].Allowed {
			return false
		}
	}
	return p.err == nil
}

// askAll asks the primary about pieces, each apart, all at once, within ctx's time or
// a part of it.
func (b *Backend) askAll(ctx, within context.Context, pieces []*piece) {
	together(pieces, func(p *piece) { b.askOne(ctx, within, p) })
}

// together does something for all pieces at once.
func together(pieces []*piece, do func(*piece)) {
	if len(pieces) == 0 {
		return
	}
	var others sync.WaitGroup
	for _, p := range pieces[1:] {
		others.Go(func() { do(p) })
	}
	do(pieces[0])
	others.Wait()
}

// askOne asks the primary about one piece. Running out of a part of the time is no
// failure of its shard, which might have answered in all of it.
func (b *Backend) askOne(ctx, within context.Context, p *piece) {
	if isOver(ctx, within) {
		p.err, p.cut = errNoTime, true
		return
	}
	start := b.now()
	p.err = inTime(ctx, within, b.ask(within, p.charges, p.verdicts))
	if p.err != nil && isOver(ctx, within) {
		p.cut = true
		return
	}
	if p.turn > 0 {
		p.guard.asked(ctx, b, p.turn, start, p.err)
		return
	}
	p.slow = p.slow || b.now().Sub(start) > b.slow
}

// isOver tells whether a part of ctx's time is over, and ctx's is not.
func isOver(ctx, within context.Context) bool {
	return errors.Is(within.Err(), context.DeadlineExceeded) && ctx.Err() == nil
}

// sum returns what a piece asks of the bucket of one of its charges.
func (p *piece) sum(of int) (sum int64) {
	c := &p.charges[of]
	for i := range p.charges {
		if o := &p.charges[i]; o.Limit.Hash() == c.Limit.Hash() && o.Limit.Bucket() == c.Limit.Bucket() && bytes.Equal(o.Key, c.Key) {
			sum += min(o.Cost, 1<<62-sum)
		}
	}
	return sum
}
