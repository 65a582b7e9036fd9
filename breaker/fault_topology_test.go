package breaker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// When the master that sentinels watch dies, calls are decided until there is
// another, and by that then.
func TestFailoverBySentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	old := s.Master()
	rideOut(t, s.URL(), true, old.Kill, func() { s.AwaitFailover(old) })
}

// keysOf returns a key for each master of a cluster, in their order.
func keysOf(c *redistest.Cluster) []string {
	masters := c.Masters()
	keys := make([]string, len(masters))
	for i, left := 0, len(keys); left > 0; i++ {
		key := fmt.Sprint("caller-", i)
		home := slices.Index(masters, c.MasterOf(c.Slot("{!"+key+"}")))
		if home >= 0 && keys[home] == "" {
			keys[home] = key
			left--
		}
	}
	return keys
}

// One dead master of a cluster opens its own breaker only. Calls of other keys go
// on as before.
func TestOneMasterOfAClusterIsDead(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Replicas(0), redistest.Config("cluster-node-timeout 60000", "cluster-require-full-coverage no"))
	keys, dead, limit := keysOf(c), c.Masters()[0], ofEach(t, 50)
	fleet := []*breaker.Backend{openRedis(t, c.URL())}
	charges := func(n int) []ratelimit.Charge {
		return []ratelimit.Charge{{Limit: limit, Key: []byte(keys[n%len(keys)]), Cost: 1}}
	}
	redistest.Eventually(t, 20*time.Second, "a known cluster", func() bool {
		before := fleet[0].Status().Local
		for n := range keys {
			if err := fleet[0].Take(t.Context(), charges(n), make([]ratelimit.Verdict, 1)); err != nil {
				return false
			}
		}
		return fleet[0].Status().Local == before
	})
	l := startLoad(fleet, charges)
	begun := time.Now()
	time.Sleep(faultTime)
	killed := time.Now()
	dead.Kill()
	time.Sleep(faultTime)
	for _, s := range fleet[0].Status().Shards {
		if isDead := s.Shard == dead.Addr; s.Shard != "" && (s.Trips > 0) != isDead {
			t.Errorf("the breaker of %s is %+v, want only that of %s opened", s.Shard, s, dead.Addr)
		}
	}
	restarted := time.Now()
	dead.Restart()
	// A master that starts serves nothing for two seconds.
	redistest.Eventually(t, 20*time.Second, "a master that serves", func() bool {
		info, err := dead.Client().ClusterInfo(context.Background()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	ended := time.Now()
	redistest.Eventually(t, 20*time.Second, "a closed breaker", func() bool { return stateOf(fleet[0], dead.Addr) == gobreaker.StateClosed })
	recovery := time.Since(ended)
	samples := l.stop()
	all := summarize(samples, begun, time.Now())
	all.check(t)
	others := slices.DeleteFunc(samples, func(s sample) bool { return s.n%len(keys) == 0 })
	before, during := p90(others, begun, killed), p90(others, killed, restarted)
	t.Logf("90 of 100 calls of other keys take at most %v, and %v before; the worst of all %v; closed %v after it served again", during, before, all.worst, recovery)
	if during > max(10*before, faultBudget/2) {
		t.Errorf("90 of 100 calls of other keys take up to %v, and %v before one master died", during, before)
	}
	if recovery > longestOpen+poolTime {
		t.Errorf("closed %v after the master served again, want %v", recovery, longestOpen+poolTime)
	}
}

// p90 returns what 90 of 100 calls of a time take at most.
func p90(samples []sample, from, to time.Time) time.Duration {
	var took []time.Duration
	for _, s := range samples {
		if s.start.After(from) && s.start.Before(to) {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*90/100]
}

// A service starts without Redis, limits by itself and picks it up when it is there.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Replicas(0))
	for _, c := range []struct{ name, target, url string }{
		{"server", redistest.Start(t).Addr, "redis://%s"},
		{"cluster", cluster.Nodes[0].Addr, "redis+cluster://%s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, c.target)
			proxy.Refuse()
			b, limit := openRedis(t, fmt.Sprintf(c.url, proxy.Addr)), perHour(t, "b", 100, ratelimit.Local)
			if n := granted(t, b, 150, limit); n != 100 {
				t.Errorf("%d of 150 calls are granted without Redis, want 100", n)
			}
			proxy.Pass()
			start := time.Now()
			redistest.Eventually(t, 20*time.Second, "a decision of Redis", func() bool {
				before := b.Status().Local
				_, err := take(b, limit)
				return err == nil && b.Status().Local == before
			})
			t.Logf("Redis decides %v after it appeared", time.Since(start))
			redistest.Eventually(t, 20*time.Second, "what was granted to be settled", func() bool {
				_, err := take(b, limit)
				s := b.Status()
				return err == nil && s.Ledger == 0 && s.Settled > 0
			})
			if s := b.Status(); s.Dropped > 0 || s.Settled > 100 {
				t.Errorf("%v, want at most 100 units settled", s)
			}
		})
	}
}
