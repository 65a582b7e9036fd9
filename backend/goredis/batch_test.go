package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

const year = 366 * 24 * time.Hour

func TestCallWithManyKeys(t *testing.T) {
	b := open(t, dialServer(t, redistest.Shared(t)))
	for list, of := range [][]ratelimit.Algorithm{algorithms, {ratelimit.TokenBucket}} {
		var charges []ratelimit.Charge
		for i := range 500 {
			charges = append(charges, chargeOf(limitOf(t, fmt.Sprint("many", list, "-", i), of[i%len(of)], 3, year), "k"))
		}
		for n := range int64(2) {
			for i, v := range mustTake(t, b, charges...) {
				if !v.Allowed || v.Remaining != 2-n {
					t.Fatalf("charge %d of call %d is answered by %+v, want %d left", i, n, v, 2-n)
				}
			}
		}
	}
}

// Lua has room for about 8,000 values at once: not all of this fits one script.
func TestManyCallsWithManyKeys(t *testing.T) {
	b := open(t, dialServer(t, redistest.Shared(t)))
	var wg sync.WaitGroup
	for caller := range 200 {
		wg.Go(func() {
			charges := rulesOf(t, 32, fmt.Sprint("caller-", caller))
			for n := range int64(2) {
				verdicts := make([]ratelimit.Verdict, len(charges))
				if err := b.Take(context.Background(), charges, verdicts); err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				for i, v := range verdicts {
					if !v.Allowed || v.Remaining != 999-n {
						t.Errorf("%v: call %d is answered by %+v, want %d left", charges[i].Limit, n, v, 999-n)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// A key that holds something else fails the calls that need it, and no others of
// its batch.
func TestForeignKeyDoesNotSpoilItsBatch(t *testing.T) {
	s := redistest.Shared(t)
	b := open(t, dialServer(t, s))
	for _, a := range algorithms {
		limit := limitOf(t, "b", a, 1000, year)
		const callers, foreign = 100, 7
		bad := chargeOf(limit, fmt.Sprint("caller-", foreign))
		s.Do("HSET", keyOf(bad), "field", "value")
		var failed atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				err := b.Take(context.Background(), []ratelimit.Charge{chargeOf(limit, fmt.Sprint("caller-", i))}, make([]ratelimit.Verdict, 1))
				if i == foreign && !errors.Is(err, ratelimit.ErrBackendBug) || i != foreign && err != nil {
					t.Errorf("%v: caller %d is answered by %v", a, i, err)
				}
				if err != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if got := s.Do("HGET", keyOf(bad), "field"); got != "value" {
			t.Errorf("%v: the foreign key holds %v, want what it held", a, got)
		}
		s.Do("DEL", keyOf(bad))
		if counts := used(t, b, limit, callers); counts[1] != callers-1 || counts[0] != 1 {
			t.Errorf("%v: callers by what they used: %v, want 1 for all but one", a, counts)
		}
	}
}

func TestCloseWhileInUse(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	client, keys := dialCluster(t, c.Addrs()), homes(c, 1)
	narrow, wide := burstOf(t, "narrow", 1, 1), burstOf(t, "wide", 1000, 1000)
	for range 5 {
		b := open(t, client)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for {
					charges := []ratelimit.Charge{chargeOf(narrow, keys[0][0]), chargeOf(wide, keys[1][0]), {Limit: wide, Key: []byte(keys[2][0]), Cost: int64(i)}}
					verdicts := make([]ratelimit.Verdict, len(charges))
					err := b.Take(context.Background(), charges, verdicts)
					if err == nil {
						d := ratelimit.Delta{Limit: wide, Key: charges[1].Key, Cost: 1, Units: -1, Receipt: verdicts[1].Receipt}
						err = b.Adjust(context.Background(), []ratelimit.Delta{d})
					}
					if err != nil {
						if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
							t.Errorf("after Close: %v, want an outage", err)
						}
						return
					}
				}
			})
		}
		time.Sleep(20 * time.Millisecond) // in use
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
	}
}

// Many callers race for what several slots have left: never is more granted, and
// what is used in the end is what was granted.
func TestCallsOfSeveralSlotsGrantNoMore(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	client, keys := dialCluster(t, c.Addrs()), homes(c, 1)
	for _, a := range algorithms {
		few, many := limitOf(t, "few", a, 80, year), limitOf(t, "many", a, 100, year)
		b, other := open(t, client), open(t, client)
		charges := []ratelimit.Charge{chargeOf(many, keys[0][0]), chargeOf(few, keys[1][0]), chargeOf(many, keys[2][0])}
		var granted atomic.Int64
		var wg sync.WaitGroup
		for i := range 24 {
			of := []ratelimit.Backend{b, other}[i%2]
			wg.Go(func() {
				for range 20 {
					verdicts := make([]ratelimit.Verdict, len(charges))
					if err := of.Take(context.Background(), charges, verdicts); err != nil {
						t.Errorf("Take: %v", err)
					}
					if verdicts[0].Allowed && verdicts[1].Allowed && verdicts[2].Allowed {
						granted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i, l := range []*ratelimit.Limit{many, few, many} {
			used := l.Most() - left(t, b, l, keys[i][0])
			// From a bucket a little less is taken back than was charged.
			if exact := !a.HasBurst(); used < granted.Load() || exact && used > granted.Load() {
				t.Errorf("%v: %d of %d are used, and %d were granted", a, used, l.Most(), granted.Load())
			}
		}
		if n := granted.Load(); n > few.Most() || n < few.Most()/2 {
			t.Errorf("%v: %d are granted, want at most %d and most of them", a, n, few.Most())
		}
	}
}

// A charge of 0 on one slot has room, and nothing of the others is given back.
func TestCallsOfSeveralSlotsMayOnlyRead(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	b, keys := open(t, dialCluster(t, c.Addrs())), homes(c, 1)
	for _, a := range algorithms {
		l := limitOf(t, "read", a, 10, year)
		for want := int64(9); want > 6; want-- {
			v := mustTake(t, b, ratelimit.Charge{Limit: l, Key: []byte(keys[0][0])}, chargeOf(l, keys[1][0]))
			if !v[0].Allowed || !v[1].Allowed || v[0].Remaining != 10 || v[1].Remaining != want || left(t, b, l, keys[1][0]) != want {
				t.Errorf("%v: %+v, and %d are left, want %d", a, v, left(t, b, l, keys[1][0]), want)
			}
		}
	}
}
