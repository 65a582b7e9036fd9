package goredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit"
)

// A call is a Take under way. On one server it is one request; on a cluster it
// is one for each slot, which reserve apart: if one refuses, what the others
// charged is given back.
type call struct {
	backend  *Backend
	requests []*request
	servers  []*server
	places   []place
	key      []byte // for making keys
}

// A place is where the answer to a charge will be.
type place struct{ request, bucket int }

var calls = sync.Pool{New: func() any { return &call{} }}

func newCall(b *Backend) *call {
	c := calls.Get().(*call)
	c.backend = b
	return c
}

func (c *call) free() {
	c.reset()
	calls.Put(c)
}

func (c *call) reset() {
	clear(c.requests)
	clear(c.servers)
	c.requests, c.servers, c.places = c.requests[:0], c.servers[:0], c.places[:0]
}

// take decides charges.
func (c *call) take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	c.reset()
	timer := c.backend.timers.get(c.backend.budget)
	defer c.backend.timers.put(timer)
	defer c.drop()
	for i := range charges {
		if err := c.add(ctx, &charges[i]); err != nil {
			return unrouted(ctx, err)
		}
	}
	granted, err := c.decide(ctx, timer)
	if err == nil {
		c.answer(verdicts, granted)
	}
	if !granted && len(c.requests) > 1 {
		c.cancel(ctx, timer, charges)
	}
	return err
}

// all is every request of a call, for ask.
const all = -1

// decide asks for every request and returns whether all were granted.
//
// Where charges on several slots had to be given back lately, it first has them
// judged, and then charges the slot with the least left before the others: what a
// refused call holds until it is given back drains away, so that many of them
// would use up what the others of their buckets may have.
func (c *call) decide(ctx context.Context, timer *time.Timer) (granted bool, err error) {
	if len(c.requests) == 1 {
		if decided, err := c.servers[0].decideAlone(ctx, c.requests[0], c.backend.budget); decided {
			return c.requests[0].granted && err == nil, err
		}
	}
	if len(c.requests) > 1 && c.backend.careful.now() {
		room, err := c.ask(ctx, timer, all, true)
		if err == nil && room {
			room, err = c.ask(ctx, timer, c.tightest(), false)
		}
		if err != nil || !room {
			return false, err
		}
	}
	return c.ask(ctx, timer, all, false)
}

// ask submits one request, or all that are not granted, and waits for the
// answers. It returns whether there was room for all of them.
func (c *call) ask(ctx context.Context, timer *time.Timer, which int, dry bool) (room bool, err error) {
	for i, r := range c.requests {
		if which != all && which != i || r.granted {
			continue
		}
		large := r.large // so it is still
		r.renew(dry)
		r.large = large
		if err = c.servers[i].submit(r); err != nil {
			err = c.ofShard(i, outage(err))
			break
		}
		r.asked = true
	}
	room, late := c.await(ctx, timer)
	if err == nil {
		err = late
	}
	return room && err == nil, err
}

// tightest returns the index of the request with the least left of a bucket.
func (c *call) tightest() int {
	tightest, least := 0, int64(math.MaxInt64)
	for i, r := range c.requests {
		for j := range r.buckets {
			if b := &r.buckets[j]; b.units > 0 && b.verdict.Remaining-b.units < least {
				tightest, least = i, b.verdict.Remaining-b.units
			}
		}
	}
	return tightest
}

// add adds a charge to the request of its slot.
func (c *call) add(ctx context.Context, charge *ratelimit.Charge) error {
	c.key = appendKey(c.key[:0], c.backend.namespace, charge.Limit, charge.Key)
	key := string(c.key)
	s, slot, err := c.backend.topology.route(ctx, key)
	if err != nil {
		return err
	}
	at := 0
	for at < len(c.requests) && (c.servers[at] != s || c.requests[at].slot != slot) {
		at++
	}
	if at == len(c.requests) {
		r := newRequest()
		r.slot = slot
		c.requests, c.servers = append(c.requests, r), append(c.servers, s)
	}
	c.places = append(c.places, place{at, c.requests[at].add(key, charge)})
	if len(c.requests[at].buckets) > maxBuckets {
		return bug(fmt.Errorf("a call has more than %d buckets, want that or fewer", maxBuckets))
	}
	return nil
}

// await waits until what was asked is answered, the caller leaves or the budget
// is spent. Requests that are not answered are gone from the call. It returns
// whether there was room for all, and the first error.
func (c *call) await(ctx context.Context, timer *time.Timer) (room bool, err error) {
	room = true
	for i, r := range c.requests {
		if r == nil || !r.asked {
			continue
		}
		if left := c.awaitOne(ctx, timer, r, err != nil); left != nil {
			c.requests[i] = nil
			if err == nil {
				err = c.ofShard(i, left)
			}
			continue
		}
		r.asked = false
		room = room && (r.granted || r.dry && r.hasRoom())
		if err == nil {
			err = c.ofShard(i, r.err)
		}
	}
	return room, err
}

// ofShard returns an error that says which master it is about, where a call is
// about several.
func (c *call) ofShard(i int, err error) error {
	if err == nil || len(c.requests) == 1 || !errors.Is(err, ratelimit.ErrUnavailable) {
		return err
	}
	return &ratelimit.ShardError{Shard: c.servers[i].name, Err: err}
}

// awaitOne waits for one request. An error says that the caller has left it.
func (c *call) awaitOne(ctx context.Context, timer *time.Timer, r *request, hurry bool) error {
	if hurry { // an earlier request ran out of time
		select {
		case <-r.done:
			return nil
		default:
			if r.leave() {
				return outage(errLate)
			}
			return nil
		}
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.leave() {
			return fmt.Errorf("goredis: %w", context.Cause(ctx))
		}
	case <-timer.C:
		timer.Reset(0) // it stays over for the cancel
		if r.leave() {
			return outage(errLate)
		}
	}
	return nil
}

// answer fills the verdicts from requests that are all answered.
func (c *call) answer(verdicts []ratelimit.Verdict, granted bool) {
	for i, p := range c.places {
		r := c.requests[p.request]
		b := &r.buckets[p.bucket]
		verdicts[i] = b.verdict
		if r.granted && !granted { // charged, and about to be given back
			verdicts[i].Remaining += b.units
			verdicts[i].Receipt = ratelimit.Receipt{}
		}
	}
}

// cancel gives back what requests charged whose call is refused. It waits for
// that as long as the call has time, so that a refusal that has been told holds
// nothing; a cancel that is lost leaves the units charged.
func (c *call) cancel(ctx context.Context, timer *time.Timer, charges []ratelimit.Charge) {
	var under []*changes
	for i, r := range c.requests {
		if r == nil || r.err != nil || !r.granted {
			continue
		}
		back := newChanges(r.slot)
		for j := range r.buckets {
			if b := &r.buckets[j]; b.units > 0 {
				back.add(b.key, &ratelimit.Delta{Limit: b.limit, Cost: b.units, Units: -b.units, Receipt: b.verdict.Receipt})
			}
		}
		if len(back.keys) > 0 && c.servers[i].changes.submit(back) == nil {
			under = append(under, back)
		}
	}
	if len(under) == 0 {
		return
	}
	c.backend.careful.start()
	// What was refused for the sake of these units is not remembered.
	defer c.backend.refusals.forgetCharges(charges)
	for _, back := range under {
		select {
		case <-back.done: //nolint:errcheck // what cannot be given back drains
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		}
	}
}

// drop frees the requests that are the call's own.
func (c *call) drop() {
	for i, r := range c.requests {
		if r != nil {
			r.free()
			c.requests[i] = nil
		}
	}
}

// carefulTime is how long calls of several slots are judged before they are
// charged, after one was given back.
const carefulTime = time.Second

// careful tells whether that is so.
type careful struct{ until atomic.Int64 } // ns since processStart

func (c *careful) now() bool {
	until := c.until.Load()
	return until != 0 && int64(time.Since(processStart)) < until
}

func (c *careful) start() { c.until.Store(int64(time.Since(processStart) + carefulTime)) }
