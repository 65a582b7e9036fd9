package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// Take implements [ratelimit.Backend]. It never waits: a ctx that has ended
// before the call fails it, and one that ends during it is not looked at.
func (b *Backend) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if b.closed.Load() || ctx.Err() != nil {
		return b.ended(ctx)
	}
	if len(charges) != len(verdicts) {
		return errLengths
	}
	if len(charges) != 1 {
		return b.takeSome(charges, verdicts)
	}
	c, v := &charges[0], &verdicts[0]
	if c.Cost < 0 {
		return errNegative
	}
	a := ask{limit: c.Limit, tag: b.tag(c.Limit, c.Key), sum: c.Cost}
	s := b.shard(a.tag)
	now := b.early()
	s.mu.Lock()
	now = b.instant(s, now)
	if c.Limit.Algorithm().HasBurst() && c.Limit.Most() > 0 {
		s.settleBucket(a, now, true, v) // without a detour
	} else {
		s.settle(a, now, true, v)
	}
	s.mu.Unlock()
	return nil
}

// ended returns why no call can be made any more.
func (b *Backend) ended(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed
	}
	return fmt.Errorf("memory: %w", context.Cause(ctx))
}

// early reads the clock for instant, before the lock, which is then held for
// half the time. A given clock waits for instant.
func (b *Backend) early() int64 {
	if b.clock.given != nil {
		return 0
	}
	return b.clock.real()
}

// instant returns the time of a decision on s, whose mu must be held. early is
// what early returned. Decisions on a bucket have to come in the order of their
// times, or one would store an earlier time than that up to which the one before
// drained, and the next would drain the difference again. So a caller that
// overtook another between its clock and the lock decides as of the other's
// time. A given clock is read here: it may go back on purpose.
func (b *Backend) instant(s *shard, early int64) int64 {
	if b.clock.given != nil {
		return b.clock.now()
	}
	s.last = max(s.last, early)
	return s.last
}

const (
	// fewAsks is how many charges most calls have, manyAsks how many all but
	// strange ones.
	fewAsks  = 4
	manyAsks = 32
)

// A numberedAsk is an ask for one charge of a call.
type numberedAsk struct {
	ask
	charge int // its index
}

// takeSome is Take for any number of charges.
func (b *Backend) takeSome(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	switch n := len(charges); {
	case n <= fewAsks:
		var asks [fewAsks]numberedAsk
		return b.takeAll(charges, verdicts, asks[:n])
	case n <= manyAsks:
		return b.takeMany(charges, verdicts)
	default:
		return b.takeAll(charges, verdicts, make([]numberedAsk, n))
	}
}

// takeMany has the array for takeAll in a frame that other calls need not clear.
//
//go:noinline
func (b *Backend) takeMany(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	var asks [manyAsks]numberedAsk
	return b.takeAll(charges, verdicts, asks[:len(charges)])
}

// takeAll is takeSome with an array for the asks.
func (b *Backend) takeAll(charges []ratelimit.Charge, verdicts []ratelimit.Verdict, asks []numberedAsk) error {
	for i := range charges {
		c := &charges[i]
		if c.Cost < 0 {
			return errNegative
		}
		asks[i] = numberedAsk{ask{c.Limit, b.tag(c.Limit, c.Key), c.Cost}, i}
	}
	sortAsks(asks)
	sumAsks(asks)
	now := b.lock(asks)
	b.settleAll(asks, now, verdicts)
	b.unlock(asks)
	return nil
}

// sortAsks sorts by tag: equal buckets come together, their first charge first,
// and shards in the order in which they have to be locked.
func sortAsks(asks []numberedAsk) {
	if len(asks) > manyAsks {
		slices.SortStableFunc(asks, func(x, y numberedAsk) int {
			if x.tag < y.tag {
				return -1
			}
			if x.tag > y.tag {
				return 1
			}
			return 0
		})
		return
	}
	for i := 1; i < len(asks); i++ {
		for j := i; j > 0 && asks[j].tag < asks[j-1].tag; j-- {
			asks[j], asks[j-1] = asks[j-1], asks[j]
		}
	}
}

// sumAsks moves the sums of charges on one bucket to the first of them.
func sumAsks(asks []numberedAsk) {
	first := 0
	for i := 1; i < len(asks); i++ {
		if asks[i].tag != asks[first].tag {
			first = i
			continue
		}
		sum := &asks[first].sum
		*sum += min(asks[i].sum, math.MaxInt64-*sum)
	}
}

// lock locks the shards of asks, in order, and returns the time of the call.
func (b *Backend) lock(asks []numberedAsk) int64 {
	var locked *shard
	for i := range asks {
		if s := b.shard(asks[i].tag); s != locked {
			s.mu.Lock()
			locked = s
		}
	}
	now := b.clock.now()
	if b.clock.given == nil {
		for i := range asks {
			now = max(now, b.shard(asks[i].tag).last)
		}
		for i := range asks {
			b.shard(asks[i].tag).last = now
		}
	}
	return now
}

func (b *Backend) unlock(asks []numberedAsk) {
	var unlocked *shard
	for i := range asks {
		if s := b.shard(asks[i].tag); s != unlocked {
			s.mu.Unlock()
			unlocked = s
		}
	}
}

// settleAll charges all asks or none, and fills verdicts. The shards must be
// locked.
func (b *Backend) settleAll(asks []numberedAsk, now int64, verdicts []ratelimit.Verdict) {
	fits := true
	for i := 0; i < len(asks) && fits; i++ {
		if i == 0 || asks[i].tag != asks[i-1].tag {
			fits = b.shard(asks[i].tag).fits(asks[i].ask, now)
		}
	}
	for i := range asks {
		v := &verdicts[asks[i].charge]
		if i > 0 && asks[i].tag == asks[i-1].tag {
			*v = verdicts[asks[i-1].charge]
			continue
		}
		b.shard(asks[i].tag).settle(asks[i].ask, now, fits, v)
	}
}

// most returns what may be used of a's bucket with a charged: the limit's most. A
// cost above that, but not above the largest of a whole limit whose share this is,
// passes when nothing is used.
func (a *ask) most() int64 {
	most := a.limit.Most()
	if a.sum > most && a.sum <= a.limit.Largest() {
		return a.sum
	}
	return most
}

// fits tells whether a has room, or asks for nothing. s.mu must be held.
func (s *shard) fits(a ask, now int64) bool {
	if a.sum == 0 {
		return true
	}
	if a.sum > a.most() {
		return false
	}
	switch a.limit.Algorithm() {
	case ratelimit.FixedWindow:
		return s.fixedFits(a, now)
	case ratelimit.SlidingWindow:
		return s.slidingFits(a, now)
	case ratelimit.SlidingLog:
		return s.logFits(a, now)
	default:
		return s.bucketFits(a, now)
	}
}

// settle fills v with the answer for a; if charge is set and a has room, it is
// charged. s.mu must be held.
func (s *shard) settle(a ask, now int64, charge bool, v *ratelimit.Verdict) {
	if a.limit.Most() == 0 {
		*v = ratelimit.Verdict{Allowed: true}
		if a.sum > 0 {
			refuseForEver(v)
		}
		return
	}
	switch a.limit.Algorithm() {
	case ratelimit.FixedWindow:
		s.settleFixed(a, now, charge, v)
	case ratelimit.SlidingWindow:
		s.settleSliding(a, now, charge, v)
	case ratelimit.SlidingLog:
		s.settleLog(a, now, charge, v)
	default:
		s.settleBucket(a, now, charge, v)
	}
}

func refuse(v *ratelimit.Verdict, retryAfter time.Duration) {
	v.Allowed, v.Reason, v.RetryAfter = false, ratelimit.ReasonExceeded, retryAfter
}

func refuseForEver(v *ratelimit.Verdict) {
	v.Allowed, v.Reason, v.RetryAfter = false, ratelimit.ReasonNever, ratelimit.Never
}
