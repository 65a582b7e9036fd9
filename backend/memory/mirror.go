package memory

import "github.com/protolimit/ratelimit"

// Mirror implements [ratelimit.Mirror]. A log is only moved up: what is used of it
// goes as its entries do.
func (b *Backend) Mirror(l *ratelimit.Limit, key []byte, used int64) {
	if b.closed.Load() || l.Most() == 0 || used < 0 {
		return
	}
	a := ask{limit: l, tag: b.tag(l, key), sum: min(used, l.Most())}
	s := b.shard(a.tag)
	now := b.early()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirror(a, b.instant(s, now))
}

// mirror makes a.sum the units that are used of a's bucket. s.mu must be held.
func (s *shard) mirror(a ask, now int64) {
	used := uint64(a.sum)
	switch a.limit.Algorithm() {
	case ratelimit.FixedWindow, ratelimit.SlidingWindow:
		w := window{current: used, at: now, length: a.limit.Window().Microseconds()}
		sliding := uint64(0)
		if a.limit.Algorithm() == ratelimit.SlidingWindow {
			sliding = 1
		}
		s.storeWindow(a.tag, &w, sliding)
	case ratelimit.SlidingLog:
		if _, _, _, have := s.logOf(a.limit, a.tag, now); used > have {
			s.appendLog(a.limit, a.tag, used-have, now)
		}
	default:
		level := used << a.limit.Shift()
		s.storeBucket(a, s.bucketOf(a, now).pos, level, now, drainTime(a.limit, level))
	}
}
