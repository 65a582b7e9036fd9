package breaker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// doubts keep by bucket the units that the fallback granted and the primary may
// never learn of, since charging them failed. Nothing charges them again, but the
// fallback goes on counting them until they have drained, so that the next outage
// does not hand out the same share once more. They are as many as the ledger keeps.
type doubts struct {
	room int
	size atomic.Int64

	mu    sync.Mutex
	units map[entry]doubt
}

// A doubt is what is in doubt of a bucket.
type doubt struct {
	limit *ratelimit.Limit // the last that was met
	units int64
}

// add notes debts whose charging failed.
func (d *doubts) add(debts []ratelimit.Delta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range debts {
		e := entryOf(debts[i].Limit, debts[i].Key)
		if _, ok := d.units[e]; !ok && len(d.units) >= d.room {
			continue
		}
		if d.units == nil {
			d.units = map[entry]doubt{}
		}
		d.units[e] = doubt{debts[i].Limit, d.units[e].units + debts[i].Units}
	}
	d.size.Store(int64(len(d.units)))
}

func (d *doubts) of(c *ratelimit.Charge) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.units[entry{c.Limit.Bucket(), c.Limit.Algorithm(), string(c.Key)}].units
}

// cut notes that of a bucket's units at most some are left, and returns how many
// are.
func (d *doubts) cut(c *ratelimit.Charge, most int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := entryOf(c.Limit, c.Key)
	units := min(d.units[e].units, most)
	if units > 0 {
		d.units[e] = doubt{c.Limit, units}
	} else {
		delete(d.units, e)
	}
	d.size.Store(int64(len(d.units)))
	return units
}

// charges returns the buckets, as charges of nothing.
func (d *doubts) charges() []ratelimit.Charge {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]ratelimit.Charge, 0, len(d.units))
	for e, in := range d.units {
		all = append(all, ratelimit.Charge{Limit: in.limit, Key: []byte(e.key)})
	}
	return all
}

// doubted returns what is in doubt of a bucket: no more than the fallback still
// counts as used of it, under the share of its limit. What the primary granted
// drains first, since it is in both.
func (b *Backend) doubted(c *ratelimit.Charge, local *ratelimit.Limit) int64 {
	if b.doubts.of(c) == 0 {
		return 0
	}
	return b.cutDoubt(context.Background(), c, local)
}

func (b *Backend) cutDoubt(ctx context.Context, c *ratelimit.Charge, local *ratelimit.Limit) int64 {
	used, err := b.usedOf(ctx, local, c.Key)
	if err != nil {
		return b.doubts.of(c)
	}
	return b.doubts.cut(c, used)
}

// forgetDoubts drops what has drained of buckets that nobody asks for.
func (b *Backend) forgetDoubts(ctx context.Context) {
	if b.doubts.size.Load() == 0 {
		return
	}
	instances := b.Instances()
	for _, c := range b.doubts.charges() {
		b.cutDoubt(ctx, &c, b.shares.of(c.Limit, instances))
	}
}
