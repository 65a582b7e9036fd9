package goredis

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// A bucket is what a call asks of one key: its charges on it, added up.
type bucket struct {
	key   string
	limit *ratelimit.Limit
	units int64

	verdict ratelimit.Verdict // once answered
}

// A request is the part of a call that one script decides. It is filled by the
// caller and, once submitted, belongs to the combiner until it is done; a caller
// that leaves earlier leaves it there.
type request struct {
	buckets []bucket
	slot    int   // of a cluster; all buckets are on it
	dry     bool  // whether it is only to be judged, not charged
	asked   bool  // whether it was submitted and is not answered yet
	large   bool  // whether its products are, so that buckets.lua left it undecided
	granted bool  // whether all buckets were charged
	err     error // why nothing was decided

	done chan struct{} // receives once the request is answered
	left atomic.Bool   // whoever sets it second frees the request
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

func newRequest() *request {
	r := requests.Get().(*request)
	r.buckets = r.buckets[:0]
	r.renew(false)
	return r
}

// renew makes a request that its caller has ready to be submitted.
func (r *request) renew(dry bool) {
	r.dry, r.asked, r.large, r.granted, r.err = dry, false, false, false, nil
	r.left.Store(false)
}

// hasRoom tells whether every bucket had room.
func (r *request) hasRoom() bool {
	for i := range r.buckets {
		if !r.buckets[i].verdict.Allowed {
			return false
		}
	}
	return true
}

func (r *request) free() {
	clear(r.buckets)
	requests.Put(r)
}

// answered hands the request back to its caller, or frees it if it has left.
func (r *request) answered() {
	if r.left.Swap(true) {
		r.free()
		return
	}
	r.done <- struct{}{}
}

// leave ends the caller's interest in a request that is not answered. It returns
// false if the request was answered at the same time.
func (r *request) leave() bool {
	if r.left.Swap(true) {
		<-r.done
		return false
	}
	return true
}

// abandoned tells whether the caller has left.
func (r *request) abandoned() bool { return r.left.Load() }

// add adds a charge to the bucket with a key and returns the bucket's index.
func (r *request) add(key string, c *ratelimit.Charge) int {
	for i := range r.buckets {
		if b := &r.buckets[i]; b.key == key {
			b.units = saturatedAdd(b.units, c.Cost)
			return i
		}
	}
	r.buckets = append(r.buckets, bucket{key: key, limit: c.Limit, units: c.Cost})
	return len(r.buckets) - 1
}

func saturatedAdd(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}

// checkCharges returns an error for what no backend decides.
func checkCharges(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if len(charges) != len(verdicts) {
		return fmt.Errorf("%w: %d charges and %d verdicts, want as many", ratelimit.ErrBackendBug, len(charges), len(verdicts))
	}
	for i := range charges {
		if charges[i].Cost < 0 {
			return fmt.Errorf("%w: cost is %d, want 0 or more", ratelimit.ErrBackendBug, charges[i].Cost)
		}
	}
	return nil
}
