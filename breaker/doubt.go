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
	units map[entry]int64
}

// add notes debts whose charging failed.
func (d *doubts) add(debts []ratelimit.Delta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range debts {
		e := entry{debts[i].Limit, string(debts[i].Key)}
		if _, ok := d.units[e]; !ok && len(d.units) >= d.room {
			continue
		}
		if d.units == nil {
			d.units = map[entry]int64{}
		}
		d.units[e] += debts[i].Units
	}
	d.size.Store(int64(len(d.units)))
}

func (d *doubts) of(c *ratelimit.Charge) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.units[entry{c.Limit, string(c.Key)}]
}

// cut notes that of a bucket's units at most some are left, and returns how many
// are.
func (d *doubts) cut(e entry, most int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	units := min(d.units[e], most)
	if units > 0 {
		d.units[e] = units
	} else {
		delete(d.units, e)
	}
	d.size.Store(int64(len(d.units)))
	return units
}

func (d *doubts) entries() []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]entry, 0, len(d.units))
	for e := range d.units {
		all = append(all, e)
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
	return b.cutDoubt(context.Background(), entry{c.Limit, string(c.Key)}, local)
}

func (b *Backend) cutDoubt(ctx context.Context, e entry, local *ratelimit.Limit) int64 {
	key := []byte(e.key)
	used, err := b.usedOf(ctx, local, key)
	if err != nil {
		return b.doubts.of(&ratelimit.Charge{Limit: e.limit, Key: key})
	}
	return b.doubts.cut(e, used)
}

// forgetDoubts drops what has drained of buckets that nobody asks for.
func (b *Backend) forgetDoubts(ctx context.Context) {
	if b.doubts.size.Load() == 0 {
		return
	}
	instances := b.Instances()
	for _, e := range b.doubts.entries() {
		b.cutDoubt(ctx, e, b.shares.of(e.limit, instances))
	}
}
