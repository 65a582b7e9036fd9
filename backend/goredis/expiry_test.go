package goredis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// keyOf returns the key of a bucket whose caller has an opaque key.
func keyOf(c ratelimit.Charge) string {
	letter := map[ratelimit.Algorithm]string{
		ratelimit.TokenBucket: "t", ratelimit.LeakyBucket: "l", ratelimit.FixedWindow: "f",
		ratelimit.SlidingWindow: "s", ratelimit.SlidingLog: "g",
	}[c.Limit.Algorithm()]
	return fmt.Sprintf("rl:{!%s}:%s:%s", c.Key, c.Limit.Bucket(), letter)
}

// ttl returns how long a key has, -1ns if it has no expiry.
func ttl(t *testing.T, s *redistest.Server, key string) time.Duration {
	t.Helper()
	d, err := s.Client().PTTL(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// slackTTL is how much longer than its state a key may stay: a second, and what
// rounding adds.
const slackTTL = time.Second + 2*time.Millisecond

// slackOf is slackTTL for a bucket with a time to full.
func slackOf(l *ratelimit.Limit, full time.Duration) time.Duration {
	if l.Algorithm().HasBurst() {
		return slackTTL + full/4
	}
	return slackTTL
}

// checkTTL fails the test if the key of a charged bucket does not expire when
// nothing is used of it, or a little later. asked is when Redis was.
func checkTTL(t *testing.T, s *redistest.Server, what string, c ratelimit.Charge, v ratelimit.Verdict, asked time.Time) {
	t.Helper()
	left := ttl(t, s, keyOf(c))
	if since := time.Since(asked) + time.Millisecond; left < 0 && v.ResetAfter > since || left > v.ResetAfter+slackOf(c.Limit, v.ResetAfter) || left+since < v.ResetAfter {
		t.Errorf("%s: %v: the key has %v, %v after a verdict of %+v", what, c.Limit, left, since, v)
	}
}

// allExpire fails the test if a key has no expiry.
func allExpire(t *testing.T, s *redistest.Server, what string) {
	t.Helper()
	ctx := context.Background()
	keys, err := s.Client().Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	left := make([]*redis.DurationCmd, len(keys))
	_, err = s.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			left[i] = p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if left[i].Val() == -1 {
			t.Errorf("%s: key %s has no expiry", what, key)
		}
	}
}

func TestKeysExpireWhenTheyAreEmpty(t *testing.T) {
	s := redistest.Shared(t)
	mix := newMixture(t, open(t, dialServer(t, s)))
	for i := range 300 {
		asked := time.Now()
		charges, verdicts := mix.call()
		told := map[string]bool{} // of a bucket that stands twice the first limit holds
		for j, c := range charges {
			if verdicts[j].Receipt.At != 0 && !told[keyOf(c)] {
				checkTTL(t, s, fmt.Sprint("call ", i), c, verdicts[j], asked)
			}
			told[keyOf(c)] = true
		}
		allExpire(t, s, fmt.Sprint("after call ", i))
		mix.adjust()
		allExpire(t, s, fmt.Sprint("after adjustment ", i))
	}
}

func TestLostExpiryIsRestored(t *testing.T) {
	s := redistest.Shared(t)
	b := open(t, dialServer(t, s))
	for _, a := range algorithms {
		for _, rules := range []int{1, 2} {
			t.Run(fmt.Sprintf("%v with %d rules", a, rules), func(t *testing.T) {
				var charges []ratelimit.Charge
				for i := range rules {
					charges = append(charges, chargeOf(limitOf(t, fmt.Sprint("lost", rules, i), a, 1000, time.Hour), "k"))
				}
				granted := mustTake(t, b, charges...)
				persist := func() {
					for _, c := range charges {
						s.Do("PERSIST", keyOf(c))
					}
				}
				persist()
				asked := time.Now()
				for i, v := range mustTake(t, b, charges...) {
					checkTTL(t, s, "after the next call", charges[i], v, asked)
				}
				persist()
				var more []ratelimit.Delta
				for i, c := range charges {
					more = append(more, ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: 1, Units: 1, Receipt: granted[i].Receipt})
				}
				if err := b.Adjust(t.Context(), more); err != nil {
					t.Fatal(err)
				}
				allExpire(t, s, "after the next adjustment")
			})
		}
	}
}

func TestShorterWindowShortensExpiry(t *testing.T) {
	s := redistest.Shared(t)
	b := open(t, dialServer(t, s))
	for _, a := range algorithms {
		hour, minute := limitOf(t, "b", a, 10, time.Hour), limitOf(t, "b", a, 10, time.Minute)
		c := chargeOf(hour, "k")
		for range 5 {
			take(t, b, c)
		}
		c.Limit = minute
		asked := time.Now()
		v := mustTake(t, b, c)[0]
		checkTTL(t, s, "after the window has changed", c, v, asked)
		most := time.Minute + slackOf(minute, time.Minute)
		if a == ratelimit.SlidingWindow {
			most += time.Minute // it counts in the window that follows
		}
		if left := ttl(t, s, keyOf(c)); v.Allowed && left > most {
			t.Errorf("%v: the key has %v, want at most %v", a, left, most)
		}
		c.Limit = hour
		asked = time.Now()
		checkTTL(t, s, "after it has changed back", c, mustTake(t, b, c)[0], asked)
	}
}

// A caller who never rests still gets a new window each time.
func TestCallsDoNotKeepAWindowOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	b := open(t, dialServer(t, s))
	const window = 600 * time.Millisecond
	c := chargeOf(limitOf(t, "b", ratelimit.FixedWindow, 1000, window), "k")
	used, last := map[int64]int64{}, int64(-1)
	for start := time.Now(); time.Since(start) < 3*window+window/2; time.Sleep(window / 12) {
		v := mustTake(t, b, c)[0]
		n := v.Receipt.At / window.Microseconds()
		used[n]++
		if left := 1000 - v.Remaining; left != used[n] {
			t.Fatalf("in window %d, which follows %d, %d are used after %d calls", n, last, left, used[n])
		}
		last = n
		if left := ttl(t, s, keyOf(c)); left < 0 || left > window+slackTTL {
			t.Fatalf("the key has %v, want at most %v", left, window+slackTTL)
		}
	}
	if len(used) < 3 {
		t.Errorf("calls fell in %d windows, want 3 or more", len(used))
	}
}

// Whatever was asked, all is forgotten when it does not matter any more.
func TestNothingIsLeftOfManyCallers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t) // of the many databases of the shared one few are cleaned in time
	b := open(t, dialServer(t, s))
	const window, callers = 2 * time.Second, 10_000
	var limits []*ratelimit.Limit
	for _, a := range algorithms {
		limits = append(limits, limitOf(t, "b", a, 5, window), limitOf(t, "b", a, 3, window/2))
	}
	var workers sync.WaitGroup
	for w := range 32 {
		workers.Go(func() {
			for i := w; i < callers; i += 32 {
				c := ratelimit.Charge{Limit: limits[i%len(limits)], Key: fmt.Appendf(nil, "caller-%d", i), Cost: int64(1 + i%3)}
				v := make([]ratelimit.Verdict, 1)
				if err := b.Take(context.Background(), []ratelimit.Charge{c}, v); err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				if i%7 == 0 {
					d := ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Units: int64(i%5 - 2), Receipt: v[0].Receipt}
					if err := b.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
						t.Errorf("Adjust: %v", err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	if err := b.Close(); err != nil { // it counts the instances as long as it is open
		t.Errorf("Close: %v", err)
	}
	full := s.Do("DBSIZE")
	allExpire(t, s, "after all calls")
	end := time.Now()
	redistest.Eventually(t, 2*window+slackTTL+5*time.Second, "an empty database", func() bool { return s.Do("DBSIZE") == int64(0) })
	took := time.Since(end)
	t.Logf("%v keys are gone after %v, with windows of %v", full, took, window)
	if most := 2*window + 3*time.Second; took > most {
		t.Errorf("it took %v, want at most %v", took, most)
	}
}
