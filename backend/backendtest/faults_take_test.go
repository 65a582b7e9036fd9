package backendtest

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/protolimit/ratelimit"
)

func countRefused(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	err := b.ask(charges, verdicts)
	for i := range verdicts {
		if !verdicts[i].Allowed && verdicts[i].Reason == ratelimit.ReasonExceeded {
			err = b.model.Adjust(context.Background(), []ratelimit.Delta{delta(charges[i], verdicts[i], charges[i].Cost)})
		}
	}
	return err
}

func oneByOne(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	for i := range charges {
		if err := b.ask(charges[i:i+1], verdicts[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// addNothing decides charges on one bucket by the largest of them.
func addNothing(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	largest := append([]ratelimit.Charge(nil), charges...)
	for i := range largest {
		for j := range i {
			if bucketOf(&largest[j]) == bucketOf(&largest[i]) {
				largest[j].Cost, largest[i].Cost = max(largest[j].Cost, largest[i].Cost), 0
			}
		}
	}
	return b.ask(largest, verdicts)
}

func wrapAround(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	wrapped := append([]ratelimit.Charge(nil), charges...)
	sum := int64(0)
	for i := range wrapped {
		sum += wrapped[i].Cost
		wrapped[i].Cost = 0
	}
	if len(wrapped) > 1 {
		wrapped[0].Cost = max(sum, 0)
		return b.ask(wrapped, verdicts)
	}
	return b.ask(charges, verdicts)
}

// latestEntry gives back from the newest entry of a log.
func latestEntry(b *broken, deltas []ratelimit.Delta) error {
	return told(func(b *broken, d *ratelimit.Delta) {
		id := bucketID{d.Limit.Bucket(), d.Limit.Algorithm(), string(d.Key)}
		if log, ok := b.buckets[id].state.(logState); ok && len(log) > 0 {
			d.Receipt.Entry = log[len(log)-1].number
		}
	})(b, deltas)
}

// renamed makes more of a limit part of its bucket's name.
func renamed(more func(l *ratelimit.Limit) string) func(*broken, []ratelimit.Charge, []ratelimit.Verdict) error {
	return asked(func(c *ratelimit.Charge) { c.Limit = like(c.Limit, c.Limit.Bucket()+more(c.Limit), 0) })
}

func keepFirst(b *broken) ratelimit.Backend {
	var mu sync.Mutex
	first := map[string]*ratelimit.Limit{}
	b.take = asked(func(c *ratelimit.Charge) {
		mu.Lock()
		defer mu.Unlock()
		name := c.Limit.Bucket() + c.Limit.Algorithm().String()
		if first[name] == nil {
			first[name] = c.Limit
		}
		c.Limit = first[name]
	})
	return b
}

// storeRefused stores the state under the limit that refused, as if 0 had been
// charged.
func storeRefused(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	err := b.ask(charges, verdicts)
	now := b.now().UnixMicro()
	for i, c := range charges {
		if !verdicts[i].Allowed && c.Limit.Most() > 0 {
			id := bucketOf(&c)
			b.mu.Lock()
			b.buckets[id] = modelBucket{state: b.state(id, now).charge(c.Limit, now, 0, 0), limit: c.Limit}
			b.mu.Unlock()
		}
	}
	return err
}

func resetOnStep(b *broken) ratelimit.Backend {
	last := time.Time{}
	b.take = func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		b.mu.Lock()
		if now := b.now(); now.Before(last) {
			clear(b.buckets)
		}
		last = b.now()
		b.mu.Unlock()
		return b.ask(charges, verdicts)
	}
	return b
}

// overflow refuses what comes more than a year after the call before.
func overflow(b *broken) ratelimit.Backend {
	last := time.Time{}
	b.take = func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		err := b.ask(charges, verdicts)
		if now := b.now(); !last.IsZero() && now.Sub(last) > year {
			verdicts[0].Remaining = 0
		}
		last = b.now()
		return err
	}
	return b
}

func joined(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	return asked(func(c *ratelimit.Charge) {
		c.Limit = like(c.Limit, c.Limit.Bucket()+string(c.Key), 0)
		c.Key = nil
	})(b, charges, verdicts)
}

// sameForAll has one algorithm for all, and so one bucket.
func sameForAll(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	return asked(func(c *ratelimit.Charge) {
		l, err := ratelimit.NewLimit(c.Limit.Bucket(), ratelimit.Rule{Rate: c.Limit.Rate()})
		if err == nil {
			c.Limit = l
		}
	})(b, charges, verdicts)
}

// careless looks at no lengths.
type careless struct{ *broken }

func (c careless) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	return c.broken.Take(ctx, charges, verdicts[:len(charges)])
}

// unclosed does not close.
type unclosed struct{ *broken }

func (unclosed) Close() error { return nil }

// checkThenCharge lets others in between.
func checkThenCharge(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	copied := newModel(b.now)
	b.mu.Lock()
	maps.Copy(copied.buckets, b.buckets)
	b.mu.Unlock()
	if err := copied.Take(context.Background(), charges, verdicts); err != nil || !allAllowed(verdicts) {
		return err
	}
	runtime.Gosched()
	for _, c := range charges {
		if err := b.model.Adjust(context.Background(), []ratelimit.Delta{delta(c, ratelimit.Verdict{}, c.Cost)}); err != nil {
			return err
		}
	}
	return nil
}

// clockFirst reads the clock before the mutex.
func clockFirst(b *broken) ratelimit.Backend {
	var mu sync.Mutex
	var now time.Time
	read := b.now
	b.now = func() time.Time { return now }
	b.take = func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		early := read()
		mu.Lock()
		defer mu.Unlock()
		now = early
		return b.ask(charges, verdicts)
	}
	b.change = func(b *broken, deltas []ratelimit.Delta) error {
		mu.Lock()
		defer mu.Unlock()
		now = read()
		return b.model.Adjust(context.Background(), deltas)
	}
	return b
}

// lazy charges once more at the next call, by the slices of the one before.
type lazy struct {
	*broken
	mu     sync.Mutex
	before []ratelimit.Charge
	key    []byte
}

func (l *lazy) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.before) > 0 {
		late := chargeKey(l.before[0].Limit, string(l.key), 1)
		if err := l.model.Take(context.Background(), []ratelimit.Charge{late}, make([]ratelimit.Verdict, 1)); err != nil {
			return err
		}
	}
	l.before, l.key = append([]ratelimit.Charge(nil), charges...), charges[0].Key
	return l.model.Take(ctx, charges, verdicts)
}

// lossy charges levels a hundredth more than was asked.
func lossy(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	err := b.ask(charges, verdicts)
	for i, c := range charges {
		id := bucketOf(&c)
		if s, ok := b.buckets[id].state.(levelState); ok && verdicts[i].Receipt.At != 0 {
			s.level.Add(s.level, steps(c.Limit, c.Cost).Div(steps(c.Limit, c.Cost), steps(c.Limit, 1).SetInt64(100)))
		}
	}
	return err
}
