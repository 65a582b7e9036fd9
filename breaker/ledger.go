package breaker

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// A ledger keeps by bucket what the fallback granted and the primary does not
// know, to be charged to it once it is back. It is bounded, and a unit is charged
// at most once.
type ledger struct {
	room    int
	dropped atomic.Uint64 // units that found no room, or could not be charged
	size    atomic.Int64

	refunds sync.Mutex // of whoever gives back
	locals  locals

	mu      sync.Mutex
	debts   map[entry]debt
	settles map[string]bool // by shard, whether a settlement is under way
}

// An entry is a bucket. Several limits may be about one: rules that share its name,
// and the same rule of a table that was loaded again.
type entry struct {
	bucket    string
	algorithm ratelimit.Algorithm
	key       string
}

func entryOf(l *ratelimit.Limit, key []byte) entry {
	return entry{l.Bucket(), l.Algorithm(), string(key)}
}

// A debt is what a bucket owes to the primary.
type debt struct {
	limit    *ratelimit.Limit // the last that was met
	grants   uint64           // how many were noted
	units    int64            // to be charged
	settling int64            // being charged
}

// locals are the grants of the fallback until they are noted. A bucket that is set
// in between to what the primary shows would lose one, and its debt then.
type locals struct {
	_     [64]byte // each call reads begun, and what is around is written
	begun atomic.Uint64
	ended atomic.Uint64
	_     [64]byte
	mu    sync.RWMutex // read by grants, locked by who wants to be alone
}

// crossed is the turn of a grant that is not alone from the start.
const crossed = math.MaxUint64

// begin returns the turn of a grant, which is alone while begun is that.
func (l *locals) begin() (turn uint64) {
	l.mu.RLock()
	turn = l.begun.Add(1)
	if l.ended.Load() != turn-1 {
		return crossed
	}
	return turn
}

func (l *locals) end() {
	l.ended.Add(1)
	l.mu.RUnlock()
}

// apart does something, once more if there were grants meanwhile: hardly ever.
func (l *locals) apart(do func()) {
	ended := l.ended.Load()
	if begun := l.begun.Load(); begun == ended {
		do()
		if l.begun.Load() == begun {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// add notes units that were granted of a bucket, of which used are used now: what
// was granted before and has drained since is owed no more. Of a grant that was not
// alone, used may be older than what others have noted, and says nothing of it.
func (l *ledger) add(c *ratelimit.Charge, units, used int64, turn uint64) {
	if units == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entryOf(c.Limit, c.Key)
	d, ok := l.debts[e]
	if !ok {
		if l.size.Load() >= int64(l.room) {
			l.dropped.Add(uint64(units))
			return
		}
		if l.debts == nil {
			l.debts = map[entry]debt{}
		}
		l.size.Add(1)
	}
	d.limit, d.grants, d.units = c.Limit, d.grants+1, d.units+units
	if l.locals.begun.Load() == turn {
		d.units = min(d.units, max(used, units))
	}
	l.debts[e] = d
}

// change notes that what a grant of the fallback cost has changed. What is given
// back of a charge that was settled stays charged.
func (l *ledger) change(c *ratelimit.Charge, units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entryOf(c.Limit, c.Key)
	if d, ok := l.debts[e]; ok {
		d.units = max(d.units+units, 0)
		l.put(e, d)
	}
}

// put keeps a debt, or drops it if it is paid. l.mu must be held.
func (l *ledger) put(e entry, d debt) {
	if d.units == 0 && d.settling == 0 {
		delete(l.debts, e)
		l.size.Add(-1)
		return
	}
	l.debts[e] = d
}

// owed returns what the primary does not know of a bucket.
func (l *ledger) owed(c *ratelimit.Charge) int64 { return l.of(c).all() }

func (l *ledger) of(c *ratelimit.Charge) debt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.debts[entry{c.Limit.Bucket(), c.Limit.Algorithm(), string(c.Key)}]
}

func (d debt) all() int64 { return d.units + d.settling }

// cut notes that of what a bucket owes, if that is still what was known, at most
// some counts, and returns how much it owes then.
func (l *ledger) cut(c *ratelimit.Charge, known debt, most int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entryOf(c.Limit, c.Key)
	d, ok := l.debts[e]
	if ok && d == known {
		d.units = min(d.units, most)
		l.put(e, d)
	}
	return d.all()
}

// take returns the debts of buckets, as being settled from now on.
func (l *ledger) take(of []ratelimit.Charge) []ratelimit.Delta {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make([]ratelimit.Delta, 0, len(of))
	for i := range of {
		e := entryOf(of[i].Limit, of[i].Key)
		if d, ok := l.debts[e]; ok && d.units > 0 {
			taken = append(taken, ratelimit.Delta{Limit: d.limit, Key: of[i].Key, Cost: d.units, Units: d.units})
			d.settling, d.units = d.settling+d.units, 0
			l.put(e, d)
		}
	}
	return taken
}

// charges returns the buckets, as charges of nothing.
func (l *ledger) charges() []ratelimit.Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]ratelimit.Charge, 0, len(l.debts))
	for e, d := range l.debts {
		all = append(all, ratelimit.Charge{Limit: d.limit, Key: []byte(e.key)})
	}
	return all
}

// settled ends the settling of debts, as they were taken; those that were not
// charged for certain are owed again.
func (l *ledger) settled(deltas []ratelimit.Delta, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range deltas {
		e := entryOf(deltas[i].Limit, deltas[i].Key)
		d, units := l.debts[e], deltas[i].Cost
		d.settling -= units
		if again {
			d.units += units
		}
		l.put(e, d)
	}
}

// begin tells whether a shard can be settled: two settlements at once would both
// fail with their primary.
func (l *ledger) begin(shard string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settles[shard] {
		return false
	}
	if l.settles == nil {
		l.settles = map[string]bool{}
	}
	l.settles[shard] = true
	return true
}

func (l *ledger) end(shard string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.settles, shard)
}

// atOnce is how many buckets are charged in one call of the primary.
const atOnce = 100

// settle charges to the primary, behind the calls, what it does not know of a
// shard's buckets. It ends when the primary fails: what was not tried yet is still
// owed, and settled when the primary is seen to be well again.
func (b *Backend) settle(shard string) {
	if !b.ledger.begin(shard) {
		return
	}
	g := b.guards.find(shard)
	if g != nil {
		g.settlesAgain(b.open) // so that one that fails has not the next right behind it
	}
	started := b.behind.start(func(ctx context.Context) {
		defer b.ledger.end(shard)
		owing := slices.DeleteFunc(b.ledger.charges(), func(c ratelimit.Charge) bool { return b.shardOf(&c) != shard })
		for chunk := range slices.Chunk(owing, atOnce) {
			if g != nil && g.isAway.Load() || !b.settleSome(ctx, b.ledger.take(chunk)) {
				break
			}
		}
		b.forgetDoubts(ctx)
	})
	if !started {
		b.ledger.end(shard)
	}
}

// settleSome charges debts, as far as they still count. One that failed is not
// tried again, which might charge it twice, unless it was certainly not sent. It
// tells whether the primary did not fail.
func (b *Backend) settleSome(ctx context.Context, debts []ratelimit.Delta) bool {
	due, total := b.due(ctx, debts)
	var err error
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case len(due) > 0:
		within, cancel := context.WithTimeout(ctx, 10*b.budget)
		err = b.adjustWithin(within, due)
		cancel()
	}
	again := err != nil && ctx.Err() == nil && isUnsent(err)
	if err != nil && !again {
		b.doubts.add(due) // first, so that the bucket counts it all the time
	}
	b.ledger.settled(debts, again)
	switch {
	case err == nil:
		b.counts.settled.Add(uint64(total))
	case !again:
		b.ledger.dropped.Add(uint64(total))
	}
	return err == nil
}

// owed returns what the primary does not know of a bucket, as far as the fallback
// still counts it as used, under the share of its limit.
func (b *Backend) owed(c *ratelimit.Charge, local *ratelimit.Limit) int64 {
	known := b.ledger.of(c)
	if known.all() == 0 {
		return 0
	}
	used, err := b.usedOf(context.Background(), local, c.Key)
	if err != nil {
		return known.all()
	}
	return b.ledger.cut(c, known, used)
}

// usedOf returns how many units of a bucket the fallback counts as used.
func (b *Backend) usedOf(ctx context.Context, local *ratelimit.Limit, key []byte) (int64, error) {
	read, verdict := [1]ratelimit.Charge{{Limit: local, Key: key}}, [1]ratelimit.Verdict{}
	if err := b.fallback.Take(ctx, read[:], verdict[:]); err != nil {
		return 0, err
	}
	return usedOf(local, &verdict[0]), nil
}

// due returns what of debts the fallback still counts as used, and its sum: the
// rest has drained, and would be charged although nothing is used.
func (b *Backend) due(ctx context.Context, debts []ratelimit.Delta) (due []ratelimit.Delta, total int64) {
	instances := b.Instances()
	charges, verdicts := make([]ratelimit.Charge, len(debts)), make([]ratelimit.Verdict, len(debts))
	for i := range debts {
		charges[i] = ratelimit.Charge{Limit: b.shares.of(debts[i].Limit, instances), Key: debts[i].Key}
	}
	err := b.fallback.Take(ctx, charges, verdicts)
	for i, d := range debts {
		if err == nil {
			d.Units = min(d.Units, usedOf(charges[i].Limit, &verdicts[i]))
			d.Cost = d.Units
		}
		if d.Units > 0 {
			due = append(due, d)
			total += d.Units
		}
	}
	return due, total
}

// usedOf returns how many units of a bucket a verdict shows as used. Of a bucket
// in debt only the wait shows how many.
func usedOf(l *ratelimit.Limit, v *ratelimit.Verdict) int64 {
	used := l.Most() - v.Remaining
	if v.Remaining > 0 || !l.Algorithm().HasBurst() || v.ResetAfter >= ratelimit.MaxWait {
		return used
	}
	return max(used, int64(float64(l.Rate().Count)*(float64(v.ResetAfter)/float64(l.Window()))))
}

// isUnsent tells whether an error says that nothing reached the primary: the
// breaker kept it away, or nobody accepted a connection.
func isUnsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, errAway) || ok && dial.Op == "dial"
}
