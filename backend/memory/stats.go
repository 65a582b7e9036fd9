package memory

// Stats tells how full a backend is.
type Stats struct {
	// Keys is how many buckets have charges that still count.
	Keys int
	// LogEntries is how many grants the SLIDING_LOG buckets keep, with some
	// that count no more.
	LogEntries int
	// Evictions is how many buckets were forgotten, ever, while their charges
	// still counted: each of them may have granted too much since. They come
	// from [WithMaxKeys] or [WithMaxLogEntries] being too small.
	Evictions uint64
	// Bytes is the memory that buckets take, used or not.
	Bytes int
}

// Stats looks at all buckets, which takes some milliseconds for a million. It
// holds back no decision for longer than a fraction of one.
func (b *Backend) Stats() Stats {
	total := Stats{Bytes: b.log.bytes()}
	for i := range b.shards {
		b.shards[i].addStats(&total, &b.clock)
	}
	return total
}

// addStats adds what s has to total. s.mu must not be held.
func (s *shard) addStats(total *Stats, c *clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.now()
	for k := range s.tables {
		t := &s.tables[k]
		total.Keys += t.live(now)
		if t.homes > 0 {
			total.Bytes += 8 * cap(t.words)
		}
	}
	total.LogEntries += s.slab.used
	total.Evictions += s.evictions
}

// clear forgets all keys. s.mu must not be held.
func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recount(func() {
		for k := range s.tables {
			s.tables[k].clear()
		}
	})
}
