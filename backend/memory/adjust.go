package memory

import (
	"context"

	"github.com/protolimit/ratelimit"
)

// Adjust implements [ratelimit.Backend]. The deltas are applied one by one; if
// the cost of one is negative, none is.
func (b *Backend) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	if b.closed.Load() || ctx.Err() != nil {
		return b.ended(ctx)
	}
	for i := range deltas {
		if deltas[i].Cost < 0 {
			return errNegative
		}
	}
	for i := range deltas {
		b.adjust(&deltas[i])
	}
	return nil
}

func (b *Backend) adjust(d *ratelimit.Delta) {
	// A receipt without a time is of a charge that was not made.
	if d.Limit.Most() == 0 || d.Units == 0 || d.Units < 0 && d.Receipt.At <= 0 {
		return
	}
	tag := b.tag(d.Limit, d.Key)
	s := b.shard(tag)
	early := b.early()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := b.instant(s, early)
	switch d.Limit.Algorithm() {
	case ratelimit.FixedWindow:
		s.adjustFixed(d, tag, now)
	case ratelimit.SlidingWindow:
		s.adjustSliding(d, tag, now)
	case ratelimit.SlidingLog:
		s.adjustLog(d, tag, now)
	default:
		s.adjustBucket(d, tag, now)
	}
}
