package breaker

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// marks remember for a second which buckets refused calls that are about several
// shards. Calls that meet one go out as a whole: they are refused again, most
// likely, and a primary that remembers what it refused then answers them without
// being asked. What a mark loses to another is only that.
type marks struct {
	seed  maphash.Seed
	slots [1024]atomic.Uint64 // the upper half of a bucket's hash, and when in ms
}

// markTime is how long a bucket is marked.
const markTime = time.Second

// set marks the buckets of a piece that refused, at a time since the backend was
// made.
func (m *marks) set(p *piece, at time.Duration) {
	for i := range p.charges {
		if !p.verdicts[i].Allowed {
			hash := m.hash(&p.charges[i])
			m.slots[hash%uint64(len(m.slots))].Store(hash>>32<<32 | uint64(uint32(at.Milliseconds())))
		}
	}
}

// met tells whether a bucket of the pieces is marked.
func (m *marks) met(pieces []*piece, at time.Duration) bool {
	for _, p := range pieces {
		for i := range p.charges {
			hash := m.hash(&p.charges[i])
			slot := m.slots[hash%uint64(len(m.slots))].Load()
			if slot>>32 == hash>>32 && uint32(at.Milliseconds())-uint32(slot) < uint32(markTime.Milliseconds()) {
				return true
			}
		}
	}
	return false
}

func (m *marks) hash(c *ratelimit.Charge) uint64 {
	return maphash.Bytes(m.seed, c.Key) ^ c.Limit.Hash()*0x9E3779B97F4A7C15
}

// askWhole asks about the live pieces in one call of the primary. If it fails all of
// them do, but only the breaker of the shard that the error names hears of it, and
// only of that one is it known what was sent: the others may have charged by then.
func (b *Backend) askWhole(ctx context.Context, s *split) {
	start := b.now()
	s.whole.reset()
	for _, p := range s.live {
		for i := range p.charges {
			s.whole.add(i, p.charges[i])
		}
	}
	answers := s.whole.answers()
	err := b.ask(ctx, s.whole.charges, answers)
	shard, named := errors.AsType[*ratelimit.ShardError](err)
	for _, p := range s.live {
		answers = answers[copy(p.verdicts, answers):]
		p.err = err
		about := named && shard.Shard == p.guard.shard
		p.others, p.vague = named && !about, err != nil && !about
		p.slow = b.now().Sub(start) > b.slow
		if p.turn > 0 && !p.others {
			p.guard.asked(ctx, b, p.turn, start, err)
		}
	}
}
