package breaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// usedIn returns how many units Redis counts of alice's bucket.
func usedIn(t *testing.T, url string, l *ratelimit.Limit) int64 {
	t.Helper()
	direct, err := goredis.Open(url, goredis.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = direct.Close() }() // it only read
	v, err := takeCtx(t.Context(), direct, 0, l)
	if err != nil {
		t.Fatal(err)
	}
	return l.Most() - v[0].Remaining
}

// tripReal has a Redis refuse to write until the breaker is open.
func tripReal(t *testing.T, s *redistest.Server, b *breaker.Backend, l *ratelimit.Limit) (calls int) {
	t.Helper()
	s.Do("CONFIG", "SET", "maxmemory", 1)
	redistest.Eventually(t, 20*time.Second, "an open breaker", func() bool {
		calls += granted(t, b, 1, l)
		return b.Status().Shards[0].State == gobreaker.StateOpen
	})
	return calls
}

// 1,000 callers who leave a Redis that is well count as no failure.
func TestCallersLeaveAHealthyRedis(t *testing.T) {
	t.Parallel()
	b, limit := openRedis(t, redistest.Shared(t).URL()), perHour(t, "b", 1e6, ratelimit.Local)
	warmUp(t, []*breaker.Backend{b}, limit)
	before := b.Status()
	var wg sync.WaitGroup
	left := 0
	var mu sync.Mutex
	for range 10 {
		wg.Go(func() {
			for n := range 100 {
				ctx, cancel := context.WithCancelCause(context.Background())
				wg.Go(func() {
					time.Sleep(time.Duration(n) * 5 * time.Microsecond)
					cancel(errCaller)
				})
				_, err := takeCtx(ctx, b, 1, limit)
				cancel(nil)
				if err != nil && !errors.Is(err, errCaller) {
					t.Errorf("the call ends with %v, want the caller's cause", err)
				}
				if err != nil {
					mu.Lock()
					left++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	s, local := b.Status().Shards[0], b.Status().Local-before.Local
	t.Logf("%d of 1000 callers left before the answer, %d calls were too slow", left, local)
	if left < 20 {
		t.Errorf("%d of 1,000 callers left before the answer, want more: nothing is shown", left)
	}
	// A machine that stands still makes calls late; a caller who leaves never does.
	if s.State != gobreaker.StateClosed || s.Trips != 0 || local > 10 || errors.Is(s.Cause, errCaller) || errors.Is(s.Cause, context.Canceled) {
		t.Errorf("after 1,000 callers left the breaker is %+v, %v", s, b.Status())
	}
}

// Of 100 calls at once in half-open, Redis gets at most the probes. One that hangs
// keeps the breaker in half-open no longer than the budget.
func TestHungProbes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	b := openRedis(t, "redis://"+proxy.Addr, breaker.WithLedger(0))
	limit, probed := perHour(t, "b", 1000, ratelimit.Local), perHour(t, "probed", 1000, ratelimit.Local)
	warmUp(t, []*breaker.Backend{b}, limit)
	tripReal(t, s, b, limit)
	proxy.Hold()
	s.Do("CONFIG", "SET", "maxmemory", 0)
	redistest.Eventually(t, 20*time.Second, "a half-open breaker", func() bool { return b.Status().Shards[0].State == gobreaker.StateHalfOpen })
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if v, err := take(b, probed); err != nil || !v[0].Allowed {
				t.Errorf("a call in half-open: %+v, %v", v, err)
			}
		})
	}
	wg.Wait()
	trips := b.Status().Shards[0].Trips
	if trips < 2 {
		t.Errorf("the probes hung and the breaker is %v, want it opened again", b.Status())
	}
	proxy.Pass()
	redistest.Eventually(t, 20*time.Second, "a closed breaker", func() bool {
		granted(t, b, 1, limit)
		return b.Status().Shards[0].State == gobreaker.StateClosed
	})
	// What was held arrives before what was sent later on the same connections, and
	// never after: the count stays.
	if n, most := usedIn(t, s.URL(), probed), int64(3*(trips-1)); n > most {
		t.Errorf("%d of 100 calls in half-open reached Redis, want at most %d", n, most)
	}
}

// Ten outages in a row grant no more than one further limit, and what they grant is
// charged to Redis once.
func TestTenSwitchesOfRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b, limit := openRedis(t, s.URL()), perHour(t, "b", 500, ratelimit.Local)
	warmUp(t, []*breaker.Backend{b}, limit)
	total := 1
	for range 10 {
		total += tripReal(t, s, b, limit)
		total += granted(t, b, 20, limit)
		s.Do("CONFIG", "SET", "maxmemory", 0)
		redistest.Eventually(t, 20*time.Second, "a closed breaker and an empty ledger", func() bool {
			total += granted(t, b, 1, limit)
			return b.Status().Shards[0].State == gobreaker.StateClosed && b.Status().Ledger == 0
		})
	}
	status, used := b.Status(), usedIn(t, s.URL(), limit)
	t.Logf("%d granted, Redis counts %d; %v", total, used, status)
	if total > 1000 {
		t.Errorf("%d calls are granted of 500 in ten switches, want at most 1000", total)
	}
	if status.Shards[0].Trips < 10 || status.Settled == 0 {
		t.Errorf("%v, want ten trips and units settled", status)
	}
	if used > int64(total) {
		t.Errorf("Redis counts %d units, and %d calls were granted", used, total)
	}
}
