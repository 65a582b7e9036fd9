package breaker

import "github.com/protolimit/ratelimit"

// Doubts returns of how many buckets units are in doubt.
func (b *Backend) Doubts() int64 { return b.doubts.size.Load() }

// Owed returns what is owed of a bucket.
func (b *Backend) Owed(l *ratelimit.Limit, key string) int64 {
	return b.ledger.owed(&ratelimit.Charge{Limit: l, Key: []byte(key)})
}
