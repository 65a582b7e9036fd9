package breaker

// Doubts returns of how many buckets units are in doubt.
func (b *Backend) Doubts() int64 { return b.doubts.size.Load() }
