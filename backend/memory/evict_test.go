package memory

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/protolimit/ratelimit"
)

// Below the bound no key is lost, of whatever algorithm, for any bound and
// number of shards; at the bound the number of keys stays there.
func TestMaxKeys(t *testing.T) {
	for _, n := range []int{1, 2, 31, 32, 100, 1000, 20_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			clock := newHand()
			b := mustOpen(t, WithMaxKeys(n), WithClock(clock.now))
			var limits []*ratelimit.Limit
			for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
				limits = append(limits, limit(t, "b", "10/h", a, 0))
			}
			put := func(from, to int) {
				for i := from; i < to; i++ {
					charge(t, b, limits[i%5], strconv.Itoa(i), 1)
				}
			}
			left := func(from, to int) (left int) {
				for i := from; i < to; i++ {
					if charge(t, b, limits[i%5], strconv.Itoa(i), 0).Remaining == 9 {
						left++
					}
				}
				return left
			}
			put(0, n)
			if got := left(0, n); got != n {
				t.Fatalf("%d keys are left of %d", got, n)
			}
			if stats := b.Stats(); stats.Keys != n || stats.Evictions != 0 {
				t.Fatalf("%+v, want %d keys and no evictions", stats, n)
			}
			put(n, 2*n)
			if got := left(0, 2*n); got != n {
				t.Fatalf("%d keys are left at a bound of %d", got, n)
			}
			if stats := b.Stats(); stats.Keys != n || stats.Evictions != uint64(n) {
				t.Fatalf("%+v, want %d keys and as many evictions", stats, n)
			}
			checkInvariants(t, b, n, defaultMaxLogEntries)

			// All are idle now, and nobody is missed.
			clock.us += 7_200_000_000
			if stats := b.Stats(); stats.Keys != 0 {
				t.Fatalf("%+v, want no keys two windows later", stats)
			}
			put(2*n, 3*n)
			if stats := b.Stats(); stats.Keys != n || stats.Evictions != uint64(n) {
				t.Fatalf("%+v, want %d keys and no more evictions", stats, n)
			}
			checkInvariants(t, b, n, defaultMaxLogEntries)
		})
	}
}

// A key that is far from empty outlives any number that are near.
func TestEvictPrefersTheNearlyEmpty(t *testing.T) {
	const n = 4000
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(n), WithClock(clock.now))
	l := limit(t, "b", "100/h", ratelimit.TokenBucket, 0)
	for i := range n / 4 {
		charge(t, b, l, fmt.Sprint("far", i), 100)
	}
	for i := range 3 * n {
		charge(t, b, l, fmt.Sprint("near", i), 1)
	}
	lost := 0
	for i := range n / 4 {
		if charge(t, b, l, fmt.Sprint("far", i), 1).Allowed {
			lost++
		}
	}
	// One in four is far, so all eight candidates are once in 4^8 times.
	if lost > 5 {
		t.Errorf("%d keys of %d are lost, want next to none", lost, n/4)
	}
	if got := b.Stats().Evictions; got < 2*n {
		t.Errorf("%d evictions, want at least %d", got, 2*n)
	}
}

// Idle keys of other shards make room before a key in use is forgotten.
func TestEvictFindsIdleKeysElsewhere(t *testing.T) {
	const n = 1 << 14
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(n), WithClock(clock.now))
	slow, fast := limit(t, "b", "100/h", ratelimit.TokenBucket, 0), limit(t, "c", "100/s", ratelimit.TokenBucket, 0)
	for i := range n / 2 {
		charge(t, b, slow, strconv.Itoa(i), 1)
	}
	for i := range n / 2 {
		charge(t, b, fast, strconv.Itoa(i), 1)
	}
	clock.us += 10_000_000
	for i := n / 2; i < n; i++ {
		charge(t, b, slow, strconv.Itoa(i), 1)
	}
	if stats := b.Stats(); stats.Keys != n || stats.Evictions != 0 {
		t.Errorf("%+v, want %d keys and no eviction", stats, n)
	}
	checkInvariants(t, b, n, defaultMaxLogEntries)
}

// A slower limit finds a state that was idle under a faster one.
func TestIdleStateStillCountsForItsKey(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithClock(clock.now))
	charge(t, b, limit(t, "b", "10/s", ratelimit.TokenBucket, 0), "key", 10)
	clock.us += 2_000_000
	got := charge(t, b, limit(t, "b", "10/h", ratelimit.TokenBucket, 0), "key", 1)
	if got.Allowed {
		t.Errorf("%+v, want a refusal: at 10/h nothing has drained in two seconds", got)
	}
}

// A few idle keys among many of one shard make room before others are forgotten.
func TestEvictFindsIdleKeysHere(t *testing.T) {
	const n = 2000
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithClock(clock.now))
	b.keys.left.Store(n - 1) // one shard for many keys
	slow, fast := limit(t, "b", "100/h", ratelimit.TokenBucket, 0), limit(t, "c", "100/s", ratelimit.TokenBucket, 0)
	for i := range n {
		l := slow
		if i%50 == 0 {
			l = fast
		}
		charge(t, b, l, strconv.Itoa(i), 1)
	}
	clock.us += 10_000_000
	for i := range n / 50 {
		charge(t, b, slow, strconv.Itoa(n+i), 1)
	}
	if stats := b.Stats(); stats.Keys != n || stats.Evictions != 0 {
		t.Errorf("%+v, want %d keys and no eviction", stats, n)
	}
}
