// Package memory is a [ratelimit.Backend] in the process: the limits of one
// instance, the fallback of a shared backend, and the backend of tests.
//
//	backend, err := memory.New()
//
// It starts no goroutine. It keeps no key, only a 64-bit hash of it under a seed
// of its own: of ten million buckets, two share one with a probability below
// 10^-5. Its memory is bounded by [WithMaxKeys] and [WithMaxLogEntries], and
// without pointers that a garbage collection would have to follow.
//
// A bucket that is empty of charges under the limit that it was last charged
// with makes room for new ones. When its limit is slowed down later than that,
// it may be gone, or may count under the new limit.
package memory

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// A Backend keeps buckets in the memory of the process. It is safe for
// concurrent use. Make one with [New].
type Backend struct {
	seed   maphash.Seed
	clock  clock
	shards []shard
	shift  uint8 // a shard's number is what is left of the tag
	closed atomic.Bool
	keys   pool
	log    arena
}

var (
	_ ratelimit.Backend          = (*Backend)(nil)
	_ ratelimit.Sharder          = (*Backend)(nil)
	_ ratelimit.Counter          = (*Backend)(nil)
	_ ratelimit.FallbackReporter = (*Backend)(nil)
	_ ratelimit.Mirror           = (*Backend)(nil)
)

// New returns an empty Backend. It errors if an option is nil or out of range.
func New(opts ...Option) (*Backend, error) {
	c := config{maxKeys: defaultMaxKeys, maxLogEntries: defaultMaxLogEntries}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("memory: option %d of %d is nil", i+1, len(opts))
		}
		o.apply(&c)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	shards := shardCount(c.maxKeys, runtime.GOMAXPROCS(0))
	skip := uint8(bits.Len(uint(shards)) - 1)
	b := &Backend{
		seed:   maphash.MakeSeed(),
		clock:  newClock(c.clock),
		shards: make([]shard, shards),
		shift:  64 - skip,
	}
	b.keys.init(bucketKind, shards)
	// Each shard has a key that it need not ask for.
	b.keys.left.Store(int64(c.maxKeys - shards))
	b.log.init(c.maxLogEntries, shards)
	for i := range b.shards {
		b.shards[i].init(i, skip, b.shards, &b.keys, &b.log)
	}
	return b, nil
}

const (
	// keysPerShard is how many keys a shard has at most, on average: few, for a
	// table is copied under the shard's lock, which takes less than a
	// millisecond then.
	keysPerShard = 1 << 13
	maxShards    = 1 << 16
)

// shardCount returns a power of two: enough for the CPUs not to meet often and
// for the keys, but so few that the bound of the keys is not mostly the shards'
// first ones.
func shardCount(maxKeys, cpus int) int {
	n := 64
	for n < 256 && n < 16*cpus || n < maxShards && n*keysPerShard < maxKeys {
		n *= 2
	}
	for n > 1 && n*16 > maxKeys {
		n /= 2
	}
	return n
}

// Close frees the memory. It never fails.
func (b *Backend) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	for i := range b.shards {
		b.shards[i].clear()
	}
	return nil
}

// Shard returns "memory": the process has one place.
func (b *Backend) Shard(*ratelimit.Charge) string { return "memory" }

// Instances returns 1.
func (b *Backend) Instances() int { return 1 }

// HasFallback returns true: there is nothing that could be away.
func (b *Backend) HasFallback() bool { return true }

var (
	errClosed   = fmt.Errorf("%w: the memory backend is closed", ratelimit.ErrUnavailable)
	errNegative = fmt.Errorf("%w: a cost is negative", ratelimit.ErrBackendBug)
	errLengths  = fmt.Errorf("%w: charges and verdicts differ in length", ratelimit.ErrBackendBug)
)

// tag returns what stands for a bucket: a hash of its key, name and algorithm,
// never 0. Two names of one key never collide, whatever the seed.
func (b *Backend) tag(l *ratelimit.Limit, key []byte) uint64 {
	return max(maphash.Bytes(b.seed, key)^l.Hash(), 1)
}

func (b *Backend) shard(tag uint64) *shard { return &b.shards[tag>>b.shift] }
