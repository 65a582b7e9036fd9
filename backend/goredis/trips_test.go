package goredis_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// rulesOf returns charges of one caller under n rules, of all algorithms.
func rulesOf(t testing.TB, n int, key string) []ratelimit.Charge {
	t.Helper()
	var charges []ratelimit.Charge
	for i := range n {
		charges = append(charges, chargeOf(limitOf(t, fmt.Sprint("rule", i), algorithms[i%len(algorithms)], 1000, year), key))
	}
	return charges
}

func TestCallIsOneRoundTrip(t *testing.T) {
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	b := open(t, dial(t, proxy.Addr, 0))
	take(t, b, rulesOf(t, 1, "k")...) // connects, and brings the scripts
	take(t, b, rulesOf(t, 2, "k")...)
	m := watch(t, s)
	for _, rules := range []int{1, 3, 32} {
		charges := rulesOf(t, rules, "k")
		m.reset()
		asked := 0
		redistest.Eventually(t, 10*time.Second, "a round trip a call, beside those of the start", func() bool {
			before := proxy.Stats().RoundTrips
			take(t, b, charges...)
			asked++
			return proxy.Stats().RoundTrips-before == 1
		})
		if n := scripts(m.all(t)); n != asked {
			t.Errorf("%d calls of %d rules take %d scripts, want as many", asked, rules, n)
		}
	}
}

func TestCallIsOneScriptOnCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	b := open(t, dialCluster(t, c.Addrs()))
	charges := rulesOf(t, 3, "k")
	take(t, b, charges...)
	home := c.MasterOf(c.Slot("{!k}"))
	monitors := map[*redistest.Server]*monitor{}
	for _, s := range c.Masters() {
		monitors[s] = watch(t, s)
	}
	take(t, b, charges...)
	for s, m := range monitors {
		want := 0
		if s == home {
			want = 1
		}
		if n := scripts(m.all(t)); n != want {
			t.Errorf("node %s ran %d scripts, want %d", s.Addr, n, want)
		}
	}
}

func TestCallersShareRoundTrips(t *testing.T) {
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	b, limit := open(t, dial(t, proxy.Addr, 0)), burstOf(t, "b", 1000, 1000)
	take(t, b, chargeOf(limit, "k"))
	proxy.Delay(20 * time.Millisecond)
	m := watch(t, s)
	const callers = 256
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := b.Take(context.Background(), []ratelimit.Charge{chargeOf(limit, strconv.Itoa(i%10))}, make([]ratelimit.Verdict, 1)); err != nil {
				t.Errorf("Take: %v", err)
			}
		})
	}
	wg.Wait()
	if n := scripts(m.all(t)); n > 20 {
		t.Errorf("%d calls at once take %d scripts, want a few", callers, n)
	}
}

// flood makes calls at once, each of its own caller.
func flood(t *testing.T, b ratelimit.Backend, l *ratelimit.Limit, callers int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := b.Take(context.Background(), []ratelimit.Charge{chargeOf(l, fmt.Sprint("caller-", i))}, make([]ratelimit.Verdict, 1)); err != nil {
				t.Errorf("Take: %v", err)
			}
		})
	}
	wg.Wait()
}

// used returns how much each caller of a flood has used.
func used(t *testing.T, b ratelimit.Backend, l *ratelimit.Limit, callers int) map[int64]int {
	t.Helper()
	counts := map[int64]int{}
	for i := range callers {
		c := chargeOf(l, fmt.Sprint("caller-", i))
		c.Cost = 0
		counts[l.Most()-mustTake(t, b, c)[0].Remaining]++
	}
	return counts
}

// A batch whose script is not there is decided by the script in full, once.
func TestFlushedScriptsChargeOnce(t *testing.T) {
	s, c := redistest.Start(t), redistest.StartCluster(t, redistest.Replicas(0))
	const callers = 200
	for _, on := range []struct {
		name    string
		b       ratelimit.Backend
		servers []*redistest.Server
	}{
		{"a server", open(t, dialServer(t, s)), []*redistest.Server{s}},
		{"a cluster", open(t, dialCluster(t, c.Addrs())), c.Masters()},
		{"one node of a cluster", open(t, dialCluster(t, c.Addrs())), c.Masters()[:1]},
	} {
		t.Run(on.name, func(t *testing.T) {
			for _, a := range algorithms {
				limit := limitOf(t, "flushed by "+on.name, a, 1000, year)
				flood(t, on.b, limit, callers)
				for _, s := range on.servers {
					s.Do("SCRIPT", "FLUSH")
				}
				flood(t, on.b, limit, callers)
				for _, s := range on.servers {
					s.Do("SCRIPT", "FLUSH")
				}
				if got := used(t, on.b, limit, callers); got[2] != callers {
					t.Errorf("%v: callers by what they used: %v, want 2 for each", a, got)
				}
			}
		})
	}
}

// Several rules of one call, on all masters, one of which lacks the script.
func TestFlushedScriptOfOneRule(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	b, limit := open(t, dialCluster(t, c.Addrs())), limitOf(t, "b", ratelimit.FixedWindow, 1000, year)
	var charges []ratelimit.Charge
	for _, keys := range masterKeys(c, 3) {
		for _, key := range keys {
			charges = append(charges, chargeOf(limit, key))
		}
	}
	for range 3 {
		if !take(t, b, charges...) {
			t.Fatal("the call is refused")
		}
		c.Masters()[1].Do("SCRIPT", "FLUSH")
	}
	for i := range charges {
		charges[i].Cost = 0
	}
	for i, v := range mustTake(t, b, charges...) {
		if v.Remaining != 997 {
			t.Errorf("%s has %d left, want 997", charges[i].Key, v.Remaining)
		}
	}
}
