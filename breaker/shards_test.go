package breaker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// A sharded primary has a shard for each bucket; those that are down fail alone.
type sharded struct {
	*primary
	down map[string]bool
}

func newSharded(t *testing.T) (*sharded, *breaker.Backend) {
	t.Helper()
	s := &sharded{primary: newPrimary(t), down: map[string]bool{}}
	s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
		for _, c := range charges {
			if s.down[c.Limit.Bucket()] {
				return &ratelimit.ShardError{Shard: c.Limit.Bucket(), Err: errDown}
			}
		}
		return nil
	})
	return s, newBreaker(t, s)
}

func (*sharded) Shard(c *ratelimit.Charge) string { return c.Limit.Bucket() }

func stateOf(b *breaker.Backend, shard string) gobreaker.State {
	for _, s := range b.Status().Shards {
		if s.Shard == shard {
			return s.State
		}
	}
	return -1
}

// One dead shard opens its own breaker only, whether it is met alone or with
// others.
func TestDeadShardOpensItsOwnBreaker(t *testing.T) {
	s, b := newSharded(t)
	one, two := perHour(t, "one", 1000, ratelimit.Local), perHour(t, "two", 1000, ratelimit.Local)
	s.down["two"] = true
	granted(t, b, 30, one, two)
	if stateOf(b, "one") != gobreaker.StateClosed || stateOf(b, "two") != gobreaker.StateOpen {
		t.Errorf("breakers are\n%v\nwant only that of two open", b.Status())
	}
	s.reached()
	before := b.Status().Local
	granted(t, b, 10, one)
	if s.reached() != 10 || b.Status().Local != before {
		t.Error("calls of the live shard do not reach it")
	}
	granted(t, b, 10, two)
	if s.reached() != 0 {
		t.Error("calls of the dead shard reach it")
	}
}

// A call with an open shard: the live one decides first, the fallback the rest,
// and what one granted is given back if the other refuses.
func TestCallAcrossAnOpenShard(t *testing.T) {
	s, b := newSharded(t)
	live, dead := perHour(t, "live", 1000, ratelimit.Local), perHour(t, "dead", 30, ratelimit.Local)
	s.down["dead"] = true
	if n := granted(t, b, 40, live, dead); n != 30 {
		t.Errorf("%d of 40 calls are granted, want the 30 that the fallback has", n)
	}
	if stateOf(b, "dead") != gobreaker.StateOpen || len(s.adjusted) == 0 {
		t.Fatalf("%v; gave back %v, want what the live shard charged for calls that the fallback refused", b.Status(), s.adjusted)
	}
	small := perHour(t, "live", 1, ratelimit.Local)
	ledger := b.Status().Ledger
	v, err := take(b, small, dead)
	if err != nil || v[0].Allowed || b.Status().Ledger != ledger {
		t.Errorf("a call that the live shard refuses: %+v, %v", v, err)
	}
}

// A rule that denies in an open shard refuses the call before anything is charged.
func TestDenyAcrossAnOpenShard(t *testing.T) {
	s, b := newSharded(t)
	live, dead := perHour(t, "live", 1000, ratelimit.Local), perHour(t, "dead", 1000, ratelimit.Deny)
	s.down["dead"] = true
	for range 30 {
		if _, err := take(b, dead); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	s.reached()
	if _, err := take(b, live, dead); !errors.Is(err, ratelimit.ErrUnavailable) || s.reached() != 0 {
		t.Errorf("the call ends with %v and reached the live shard, want neither", err)
	}
}
