package backendtest

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"sync"
	"time"

	"github.com/protolimit/ratelimit"
)

// A model is docs/algorithms.md as a backend, as plain as it can be written:
// one mutex, one map, big integers, and waits that are searched for, not
// computed. It is what the random traces compare a backend with.
type model struct {
	now func() time.Time
	// watch makes each call note which buckets may be forgotten from then on.
	watch bool

	mu      sync.Mutex
	buckets map[bucketID]modelBucket
	grants  uint64
	closed  bool
}

// A bucketID tells buckets apart.
type bucketID struct {
	bucket    string
	algorithm ratelimit.Algorithm
	key       string
}

func bucketOf(c *ratelimit.Charge) bucketID {
	return bucketID{c.Limit.Bucket(), c.Limit.Algorithm(), string(c.Key)}
}

// A modelBucket is a bucket's state and the limit that last changed it.
type modelBucket struct {
	state       state
	limit       *ratelimit.Limit
	forgettable bool // was empty since, under that limit
}

// A state is what an algorithm keeps of one bucket. It is immutable. Times are
// µs since 1970, none of them later than the now that comes with it.
type state interface {
	// seen returns the state with times later than now as now.
	seen(now int64) state
	// used returns what is used at now under l, in steps.
	used(l *ratelimit.Limit, now int64) *big.Int
	// charge returns the state with units more used, rounded up to what a state
	// can hold; entry is what the receipt will say.
	charge(l *ratelimit.Limit, now, units int64, entry uint64) state
	// giveBack returns the state with up to -d.Units less used, and whether any
	// of it was given back.
	giveBack(l *ratelimit.Limit, now int64, d *ratelimit.Delta) (state, bool)
}

func newModel(now func() time.Time) *model {
	return &model{now: now, buckets: map[bucketID]modelBucket{}}
}

func fresh(a ratelimit.Algorithm) state {
	switch a {
	case ratelimit.FixedWindow:
		return windowState{}
	case ratelimit.SlidingWindow:
		return slidingState{}
	case ratelimit.SlidingLog:
		return logState{}
	}
	return levelState{level: new(big.Int)}
}

// A sum is the charges of one call on one bucket.
type sum struct {
	id    bucketID
	limit *ratelimit.Limit
	cost  int64
}

// sums adds charges up by bucket, in order of first mention; which[i] is the
// sum of charges[i].
func sums(charges []ratelimit.Charge) (all []sum, which []int) {
	index := map[bucketID]int{}
	for i := range charges {
		c := &charges[i]
		id := bucketOf(c)
		at, known := index[id]
		if !known {
			at = len(all)
			index[id] = at
			all = append(all, sum{id: id, limit: c.Limit})
		}
		all[at].cost = saturated(all[at].cost, c.Cost)
		which = append(which, at)
	}
	return all, which
}

// saturated returns a + b, at most the largest int64. Neither is negative.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Take implements [ratelimit.Backend].
func (m *model) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if len(charges) != len(verdicts) {
		return fmt.Errorf("%w: %d charges, %d verdicts", ratelimit.ErrBackendBug, len(charges), len(verdicts))
	}
	for i := range charges {
		if charges[i].Cost < 0 {
			return fmt.Errorf("%w: cost is %d, want 0 or more", ratelimit.ErrBackendBug, charges[i].Cost)
		}
	}
	now := m.now().UnixMicro()
	m.note(now)
	all, which := sums(charges)
	answers := make([]ratelimit.Verdict, len(all))
	passes := true
	for i, s := range all {
		answers[i] = judge(m.state(s.id, now), s.limit, now, s.cost)
		passes = passes && answers[i].Allowed
	}
	for i, s := range all {
		if passes && s.cost > 0 {
			answers[i] = m.charge(s, now)
		}
	}
	for i := range verdicts {
		verdicts[i] = answers[which[i]]
	}
	return nil
}

// charge stores s, which has room, and returns the verdict. m.mu must be held.
func (m *model) charge(s sum, now int64) ratelimit.Verdict {
	m.grants++
	entry := m.entry(s.limit)
	state := m.state(s.id, now).charge(s.limit, now, s.cost, entry)
	m.buckets[s.id] = modelBucket{state: state, limit: s.limit}
	v := judge(state, s.limit, now, 0)
	v.Receipt = ratelimit.Receipt{At: now, Entry: entry}
	return v
}

// entry returns what finds the next grant again: the number of a log's entry,
// the length of a window; the levels need nothing. m.mu must be held.
func (m *model) entry(l *ratelimit.Limit) uint64 {
	switch l.Algorithm() {
	case ratelimit.SlidingLog:
		return m.grants
	case ratelimit.FixedWindow, ratelimit.SlidingWindow:
		return uint64(length(l))
	}
	return 0
}

// Adjust implements [ratelimit.Backend].
func (m *model) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	for i := range deltas {
		if deltas[i].Cost < 0 {
			return fmt.Errorf("%w: cost is %d, want 0 or more", ratelimit.ErrBackendBug, deltas[i].Cost)
		}
	}
	now := m.now().UnixMicro()
	m.note(now)
	for i := range deltas {
		m.adjust(&deltas[i], now)
	}
	return nil
}

// adjust applies one delta. m.mu must be held.
func (m *model) adjust(d *ratelimit.Delta, now int64) {
	l := d.Limit
	id := bucketID{l.Bucket(), l.Algorithm(), string(d.Key)}
	state := m.state(id, now)
	changed := false
	switch {
	case l.Most() == 0:
	case d.Units > 0:
		m.grants++
		state, changed = state.charge(l, now, d.Units, m.entry(l)), true
	case d.Units < 0 && d.Receipt.At != 0:
		state, changed = state.giveBack(l, now, d)
	}
	if changed {
		m.buckets[id] = modelBucket{state: state, limit: l}
	}
}

// Close implements [ratelimit.Backend].
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// ready says why nothing can be decided, if so. m.mu must be held.
func (m *model) ready(ctx context.Context) error {
	if m.closed {
		return fmt.Errorf("%w: closed", ratelimit.ErrUnavailable)
	}
	return context.Cause(ctx)
}

// state returns a bucket's state as now sees it. m.mu must be held.
func (m *model) state(id bucketID, now int64) state {
	if b, ok := m.buckets[id]; ok {
		return b.state.seen(now)
	}
	return fresh(id.algorithm)
}

// note marks the buckets that are empty under the limit that last changed them.
// m.mu must be held.
func (m *model) note(now int64) {
	if !m.watch {
		return
	}
	for id, b := range m.buckets {
		if !b.forgettable && b.state.seen(now).used(b.limit, now).Sign() == 0 {
			b.forgettable = true
			m.buckets[id] = b
		}
	}
}

// open tells whether docs/algorithms.md leaves open what a call on the bucket
// finds now: it may have been forgotten, and is not empty under l.
func (m *model) open(l *ratelimit.Limit, key []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	m.note(now)
	b := m.buckets[bucketID{l.Bucket(), l.Algorithm(), string(key)}]
	return b.forgettable && l.Most() > 0 && b.state.seen(now).used(l, now).Sign() > 0
}
