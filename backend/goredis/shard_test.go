package goredis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestShardOfASingleServer(t *testing.T) {
	b := opened(t, "redis://127.0.0.1:1") // nobody is there
	l := limit(t, "b", 10, time.Minute)
	for _, key := range [][]byte{nil, Key(Text("alice"))} {
		if got := b.Shard(&ratelimit.Charge{Limit: l, Key: key}); got != onlyShard {
			t.Errorf("shard of %q: got %q, want %q", key, got, onlyShard)
		}
	}
}

func TestShardIsTheMaster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	b := opened(t, cluster.URL())
	l := limit(t, strings.Repeat("b", 60), 10, time.Minute)
	c := &ratelimit.Charge{Limit: l, Key: Key(Text("alice"))}
	if got := b.Shard(c); got != "" {
		t.Errorf("before the masters are known: got %q, want none", got)
	}
	took(t, b, l, nil)
	for i := range 50 {
		c.Key = Key(Text(fmt.Sprint("caller-", i)))
		want := cluster.MasterOf(cluster.Slot(keyOf(l, c.Key))).Addr
		if got := b.Shard(c); got != want {
			t.Errorf("shard of %q: got %s, want %s", c.Key, got, want)
		}
	}
	for _, key := range [][]byte{c.Key, nil} {
		c.Key = key
		b.Shard(c)
		if n := testing.AllocsPerRun(100, func() { b.Shard(c) }); n > 0 {
			t.Errorf("key %q: %v allocations, want none", key, n)
		}
	}
}

func TestShardFollowsAFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Masters(1))
	b := opened(t, cluster.URL())
	l := limit(t, "b", 10, time.Minute)
	took(t, b, l, nil)
	cluster.Promote(cluster.Nodes[1])
	redistest.Eventually(t, 10*time.Second, "the new master", func() bool {
		verdicts := make([]ratelimit.Verdict, 1)
		c := ratelimit.Charge{Limit: l, Cost: 1}
		_ = b.Take(t.Context(), []ratelimit.Charge{c}, verdicts) // refused by the old one at first
		return b.Shard(&c) == cluster.Nodes[1].Addr
	})
}
