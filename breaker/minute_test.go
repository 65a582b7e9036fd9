package breaker_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// A testClock is a clock that stands still but for its test.
type testClock struct{ at atomic.Int64 } // µs since 1970

// newTestClock returns a clock at the beginning of a minute.
func newTestClock() *testClock {
	c := &testClock{}
	c.at.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *testClock) now() time.Time { return time.UnixMicro(c.at.Load()) }

func (c *testClock) pass(d time.Duration) { c.at.Add(d.Microseconds()) }

// threeAround returns three instances around a Redis whose decisions, like those of
// their fallbacks, are as of the clock.
func threeAround(t *testing.T, url string, clock *testClock) []*breaker.Backend {
	t.Helper()
	var fleet []*breaker.Backend
	for range 3 {
		local, err := memory.New(memory.WithClock(clock.now))
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, openAround(t, openPrimary(t, url, goredis.WithClock(clock.now)), local,
			breaker.WithInstances(3), breaker.WithTrip(3, 0.01, time.Second), breaker.WithOpen(openTime, 1)))
	}
	return fleet
}

// perMinute returns a limit of 30 a minute.
func perMinute(t *testing.T, a ratelimit.Algorithm) *ratelimit.Limit {
	t.Helper()
	return limitOf(t, a.String(), ratelimit.Rule{Rate: ratelimit.Rate{Count: 30, Window: time.Minute}, Algorithm: a})
}

// grantedBy returns how many calls are granted of n by each instance, in turn.
func grantedBy(t *testing.T, fleet []*breaker.Backend, n int, l *ratelimit.Limit) (total int) {
	t.Helper()
	for range n {
		for _, b := range fleet {
			total += granted(t, b, 1, l)
		}
	}
	return total
}

// demand makes a minute of calls, ten a second of each instance.
func demand(t *testing.T, fleet []*breaker.Backend, clock *testClock, l *ratelimit.Limit) (total int) {
	t.Helper()
	for range 600 {
		clock.pass(100 * time.Millisecond)
		total += grantedBy(t, fleet, 1, l)
	}
	return total
}

// Three instances whose Redis is gone before their first call grant together what
// one limit of 30 a minute does, not three times as much.
func TestThreeInstancesWithoutRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	for _, c := range []struct {
		algorithm                   ratelimit.Algorithm
		burst, minute, next, spread int // granted at one instant, after a minute, and in the next one
	}{
		{ratelimit.TokenBucket, 30, 60, 30, 4},
		{ratelimit.LeakyBucket, 30, 60, 30, 4},
		{ratelimit.FixedWindow, 30, 30, 30, 2},
		{ratelimit.SlidingWindow, 30, 30, 30, 4},
		{ratelimit.SlidingLog, 30, 30, 30, 2},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			t.Parallel()
			clock, l := newTestClock(), perMinute(t, c.algorithm)
			fleet := threeAround(t, s.URL(), clock)
			total := grantedBy(t, fleet, 20, l)
			if total < c.burst-2 || total > c.burst+2 {
				t.Errorf("%d of 60 calls at one instant are granted, want %d", total, c.burst)
			}
			clock.pass(-100 * time.Millisecond) // the minute ends with the window
			if total += demand(t, fleet, clock, l); total < c.minute-c.spread || total > c.minute+c.spread {
				t.Errorf("%d are granted by the end of a minute of demand, want %d", total, c.minute)
			}
			if n := demand(t, fleet, clock, l); n < c.next-c.spread || n > c.next+c.spread {
				t.Errorf("%d are granted in the next minute, want %d", n, c.next)
			}
			ten := limitOf(t, "ten", ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: time.Minute}, Algorithm: c.algorithm})
			if v, err := takeCtx(t.Context(), fleet[0], 5, ten); err != nil || !v[0].Allowed {
				t.Errorf("a cost of 5 on a burst of 10: %+v, %v; want it granted", v, err)
			}
		})
	}
}

// Ten switches within a minute, by a Redis that is killed or suspended and comes
// back with what it had, grant about what one limit does.
func TestTenSwitchesInAMinute(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config("appendonly yes"))
	clock := newTestClock()
	fleet := threeAround(t, s.URL(), clock)
	limits := []*ratelimit.Limit{perMinute(t, ratelimit.TokenBucket), perMinute(t, ratelimit.FixedWindow)}
	totals := make([]int, len(limits))
	call := func() {
		for i, l := range limits {
			totals[i] += grantedBy(t, fleet, 1, l)
		}
	}
	isBack := func() bool {
		call()
		for _, b := range fleet {
			if b.Status().Ledger > 0 {
				return false
			}
		}
		return allAre(fleet, gobreaker.StateClosed)
	}
	outages := []struct{ begin, end func() }{{s.Pause, s.Resume}, {s.Kill, s.Restart}}
	for i := range 600 { // every 100ms; every 6s Redis goes or comes back
		if i%60 == 30 {
			outage := outages[i/120%2]
			if i/60%2 == 0 {
				outage.begin()
			} else {
				outage.end()
				redistest.Eventually(t, 20*time.Second, "closed breakers and empty ledgers", isBack)
			}
		}
		call()
		clock.pass(100 * time.Millisecond)
	}
	trips, dropped := 0, uint64(0)
	for _, b := range fleet {
		st := b.Status()
		trips, dropped = trips+st.Shards[0].Trips, dropped+st.Dropped
	}
	t.Logf("%v granted, %d trips, %d units dropped", totals, trips, dropped)
	if trips < 15 {
		t.Errorf("breakers tripped %d times, want each of three in each of five outages", trips)
	}
	for i, one := range []int{60, 30} {
		// 30 more is what may be; since all instances know the key, it is far less.
		if totals[i] < one-10 || totals[i] > one+15 {
			t.Errorf("%v: %d are granted in a minute of ten switches, want about %d", limits[i], totals[i], one)
		}
	}
}
