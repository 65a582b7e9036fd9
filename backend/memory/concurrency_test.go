package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// within runs f, and ends the tests with every goroutine's stack if it hangs.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		// What waits for a lock for ever cannot be ended, and would be told as
		// a leak instead.
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s hangs", t.Name()))
	}
}

// storm calls take from several goroutines for a while, and returns the receipts'
// times of what was granted to key "hot", in order.
func storm(t *testing.T, b *Backend, limits []*ratelimit.Limit, cost int64, d time.Duration) []int64 {
	t.Helper()
	const callers = 8
	granted := make([][]int64, callers)
	end := time.Now().Add(d)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			charges := make([]ratelimit.Charge, len(limits))
			for n, l := range limits {
				charges[n] = ratelimit.Charge{Limit: l, Key: []byte("hot"), Cost: cost}
			}
			verdicts := make([]ratelimit.Verdict, len(limits))
			// Odd ones charge one bucket, even ones all.
			n := 1 + (i%2)*(len(limits)-1)
			for time.Now().Before(end) {
				for range 100 {
					_ = b.Take(context.Background(), charges[:n], verdicts[:n])
					if at := verdicts[0].Receipt.At; at != 0 {
						granted[i] = append(granted[i], at)
					}
				}
			}
		})
	}
	within(t, 20*time.Second, wait.Wait)
	all := slices.Concat(granted...)
	slices.Sort(all)
	return all
}

// No window of any length sees more than its algorithm grants, however many
// callers there are.
func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	const cost = 5_000
	plenty := limit(t, "plenty", "1000000000/s", ratelimit.TokenBucket, ratelimit.MaxCount)
	for _, c := range []struct {
		algorithm ratelimit.Algorithm
		rate      string
		burst     int64
		check     func(t *testing.T, granted []int64)
	}{
		{ratelimit.TokenBucket, "1000000000/s", 3 * cost, func(t *testing.T, granted []int64) {
			t.Helper()
			// Of any two grants: what is granted from the first to the second
			// is at most the burst and what drains between them.
			lowest := int64(0)
			for i, at := range granted {
				at -= granted[0]
				before, after := int64(i)*cost-1000*at, int64(i+1)*cost-1000*at
				lowest = min(lowest, before)
				if after-lowest > 3*cost {
					t.Fatalf("%d more than the burst is granted until %d µs", after-lowest-3*cost, at)
				}
			}
		}},
		{ratelimit.FixedWindow, "1000000/ms", 0, func(t *testing.T, granted []int64) {
			t.Helper()
			windows := map[int64]int64{}
			for _, at := range granted {
				if windows[at/1000] += cost; windows[at/1000] > 1_000_000 {
					t.Fatalf("%d are granted in one window", windows[at/1000])
				}
			}
		}},
		{ratelimit.SlidingLog, "10000/ms", 0, func(t *testing.T, granted []int64) {
			t.Helper()
			for i := range granted {
				if i >= 2 && granted[i]-granted[i-2] < 1000 {
					t.Fatalf("three are granted within %d µs", granted[i]-granted[i-2])
				}
			}
		}},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			t.Parallel()
			b := mustOpen(t)
			l := limit(t, "b", c.rate, c.algorithm, c.burst)
			granted := storm(t, b, []*ratelimit.Limit{l, plenty}, cost, 300*time.Millisecond)
			if len(granted) < 10 {
				t.Fatalf("%d grants, want more", len(granted))
			}
			c.check(t, granted)
			checkInvariants(t, b, defaultMaxKeys, defaultMaxLogEntries)
		})
	}
}

// A time that another caller overtook is not stored. The next one would drain
// again what that caller drained.
func TestOvertakenTime(t *testing.T) {
	b := mustOpen(t)
	s := &b.shards[0]
	now := b.early()
	later := now + 3_600_000_000
	if got := b.instant(s, later); got != later {
		t.Errorf("instant = %d, want %d", got, later)
	}
	if got := b.instant(s, now); got != later {
		t.Errorf("instant of an overtaken caller = %d, want %d", got, later)
	}
	asks := []numberedAsk{{ask: ask{tag: 1}}} // of shard 0
	if got := b.lock(asks); got != later {
		t.Errorf("lock = %d, want %d", got, later)
	}
	b.unlock(asks)
}

// Calls that name the same buckets in all orders end, and charge all or nothing;
// so do those that look for room in other shards meanwhile.
func TestNoDeadlock(t *testing.T) {
	b := mustOpen(t, WithMaxKeys(2048), WithMaxLogEntries(512))
	var limits []*ratelimit.Limit
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		limits = append(limits, limit(t, "b", "100/m", a, 0), limit(t, "c", "100/s", a, 0))
	}
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			var charges [40]ratelimit.Charge
			var verdicts [40]ratelimit.Verdict
			for range 1500 {
				n := 1 + r.IntN(len(charges))
				for i := range n {
					key := fmt.Appendf(nil, "key%d", r.IntN(3000))
					charges[i] = ratelimit.Charge{Limit: limits[r.IntN(len(limits))], Key: key, Cost: r.Int64N(3)}
				}
				if err := b.Take(context.Background(), charges[:n], verdicts[:n]); err != nil {
					t.Errorf("Take() = %v", err)
					return
				}
				d := ratelimit.Delta{Limit: charges[0].Limit, Key: charges[0].Key, Cost: charges[0].Cost, Units: r.Int64N(3) - 2, Receipt: verdicts[0].Receipt}
				if err := b.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
					t.Errorf("Adjust() = %v", err)
					return
				}
				if r.IntN(1000) == 0 {
					b.Stats()
				}
			}
		})
	}
	within(t, 20*time.Second, wait.Wait)
	checkInvariants(t, b, 2048, 512)
}
