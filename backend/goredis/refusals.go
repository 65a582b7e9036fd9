package goredis

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
)

const (
	// longestMemory bounds how long a refusal is remembered, so that what another
	// instance does to a bucket (a refund, a reset, a raised limit) is seen soon.
	longestMemory = time.Second

	refusalShards    = 64
	refusalsPerShard = 1024
)

// refusals remember refused calls. As long as a refused call would have had to
// wait, the same one is refused again without asking Redis: a caller in a tight
// loop costs it nothing.
//
// A call is known by a seeded hash of its buckets and limits, and is the same
// if it costs at least as much.
type refusals struct {
	seed   maphash.Seed
	start  time.Time
	shards [refusalShards]refusalShard
	// Each bucket has one of these generations; changing one forgets what is
	// remembered of the bucket, and of some others.
	generations [256]atomic.Uint32
}

type refusalShard struct {
	mu    sync.Mutex
	calls map[uint64]refusal
	_     [40]byte // a cache line for each shard
}

// A refusal is a call that was refused.
type refusal struct {
	told, until time.Duration // when it was answered, and how long it holds, since the start
	cost        int64         // of the call's only charge; 0 for several
	generation  uint32        // sum over the buckets, when it was sent
	verdicts    []ratelimit.Verdict
}

func newRefusals() *refusals {
	r := &refusals{seed: maphash.MakeSeed(), start: time.Now()}
	for i := range r.shards {
		r.shards[i].calls = map[uint64]refusal{}
	}
	return r
}

// A signature is what a call is known by, when it came, and the generation of
// its buckets then.
type signature struct {
	hash       uint64
	generation uint32
	now        time.Duration
}

// sign returns the signature of a call.
func (r *refusals) sign(charges []ratelimit.Charge) signature {
	s := signature{now: time.Since(r.start)}
	for i := range charges {
		c := &charges[i]
		bucket := r.bucket(c.Limit, c.Key)
		s.generation += r.generations[byte(bucket)].Load()
		s.hash = mix(s.hash ^ bucket)
		// The numbers of a limit are not in its hash: another limit of the same
		// bucket is another call.
		s.hash = mix(s.hash ^ uint64(c.Limit.Most()))
		s.hash = mix(s.hash ^ uint64(c.Limit.Rate().Count))
		s.hash = mix(s.hash ^ uint64(c.Limit.Window()))
		if len(charges) > 1 {
			s.hash = mix(s.hash ^ uint64(c.Cost))
		}
	}
	return s
}

func (r *refusals) bucket(l *ratelimit.Limit, key []byte) uint64 {
	return mix(maphash.Bytes(r.seed, key) ^ l.Hash())
}

// mix spreads the bits of h (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// answer fills the verdicts if the call is remembered as refused.
func (r *refusals) answer(s signature, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) bool {
	shard := &r.shards[s.hash%refusalShards]
	shard.mu.Lock()
	known, ok := shard.calls[s.hash]
	shard.mu.Unlock()
	if !ok || s.now >= known.until || known.generation != s.generation || len(known.verdicts) != len(charges) {
		return false
	}
	since := max(s.now-known.told, 0).Truncate(time.Microsecond)
	for i := range known.verdicts {
		verdicts[i] = later(known.verdicts[i], since)
	}
	return len(charges) > 1 || known.covers(&charges[0], &verdicts[0])
}

// covers tells whether what is known of the only charge of a call answers another
// one, and makes v that answer. A lower cost may pass; how long a higher one has
// to wait can be told where a bucket drains evenly or all at once.
func (k *refusal) covers(c *ratelimit.Charge, v *ratelimit.Verdict) bool {
	switch {
	case c.Cost == k.cost:
	case c.Cost < k.cost:
		return false
	case c.Cost > c.Limit.Most():
		v.Reason, v.RetryAfter = ratelimit.ReasonNever, ratelimit.Never
	case c.Limit.Algorithm().HasBurst():
		v.RetryAfter = min(v.RetryAfter+drainTime(c.Limit, c.Cost-k.cost), ratelimit.MaxWait)
	default:
		return c.Limit.Algorithm() == ratelimit.FixedWindow
	}
	return true
}

// drainTime returns how long it takes for units to drain, rounded up.
func drainTime(l *ratelimit.Limit, units int64) time.Duration {
	num, den := l.Drain()
	return micros(int64(min(arith.MulDivUp(uint64(units)<<l.Shift(), den, num), maxDouble)))
}

// later returns what a verdict says some time later, if nobody called.
func later(v ratelimit.Verdict, since time.Duration) ratelimit.Verdict {
	v.ResetAfter = max(v.ResetAfter-since, 0)
	if v.RetryAfter == ratelimit.Never || v.Allowed {
		return v
	}
	if v.RetryAfter -= since; v.RetryAfter <= 0 { // one of several that refused
		v.Allowed, v.Reason, v.RetryAfter = true, ratelimit.ReasonNone, 0
	}
	return v
}

// remember notes a call if it was refused.
func (r *refusals) remember(s signature, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	var wait time.Duration
	for i := range verdicts {
		wait = max(wait, verdicts[i].RetryAfter)
	}
	if wait == 0 {
		return
	}
	known := refusal{told: time.Since(r.start), until: s.now + min(wait, longestMemory), generation: s.generation}
	known.verdicts = append(known.verdicts, verdicts...)
	if len(charges) == 1 {
		known.cost = charges[0].Cost
	}
	shard := &r.shards[s.hash%refusalShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, ok := shard.calls[s.hash]; !ok && len(shard.calls) >= refusalsPerShard {
		for other := range shard.calls { // any one: asking Redis again costs little
			delete(shard.calls, other)
			break
		}
	}
	shard.calls[s.hash] = known
}

// forgetAll forgets what is remembered of the buckets of deltas.
func (r *refusals) forgetAll(deltas []ratelimit.Delta) {
	if r == nil {
		return
	}
	for i := range deltas {
		r.forget(deltas[i].Limit, deltas[i].Key)
	}
}

// forgetCharges forgets what is remembered of the buckets of charges.
func (r *refusals) forgetCharges(charges []ratelimit.Charge) {
	if r == nil {
		return
	}
	for i := range charges {
		r.forget(charges[i].Limit, charges[i].Key)
	}
}

// forgetLimits forgets what is remembered of the buckets of a key.
func (r *refusals) forgetLimits(limits []*ratelimit.Limit, key []byte) {
	if r == nil {
		return
	}
	for _, l := range limits {
		r.forget(l, key)
	}
}

// forget forgets what is remembered of a bucket.
func (r *refusals) forget(l *ratelimit.Limit, key []byte) {
	r.generations[byte(r.bucket(l, key))].Add(1)
}
