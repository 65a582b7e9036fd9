package redistest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	start := time.Now()
	c := redistest.StartCluster(t)
	t.Logf("a cluster of %d nodes in %v", len(c.Nodes), time.Since(start).Round(time.Millisecond))

	opt, err := redis.ParseClusterURL(c.URL())
	if err != nil || len(opt.Addrs) != 6 {
		t.Fatalf("addresses of %s: got %v, %v, want 6", c.URL(), opt, err)
	}
	rdb := redis.NewClusterClient(opt)
	defer closeIt(t, rdb)
	for i := range 100 {
		key := fmt.Sprint("k", i)
		if err := rdb.Set(t.Context(), key, i, 0).Err(); err != nil {
			t.Fatalf("SET %s: %v", key, err)
		}
		if got := c.MasterOf(c.Slot(key)).Do("EXISTS", key); got != int64(1) {
			t.Errorf("EXISTS %s on the master of slot %d: got %v, want 1", key, c.Slot(key), got)
		}
	}

	masters := c.Masters()
	if len(masters) != 3 || masters[0] != c.Nodes[0] || masters[2] != c.Nodes[2] {
		t.Fatalf("masters: got %d, want the first 3 nodes", len(masters))
	}
	for i, m := range masters {
		if r := c.ReplicasOf(m); len(r) != 1 || r[0] != c.Nodes[3+i] {
			t.Errorf("replicas of node %d: got %d, want node %d", i, len(r), 3+i)
		}
	}
	checkMove(t, c, rdb)
	checkPromote(t, c, rdb)
	checkKill(t, c, rdb)
}

// checkMove moves a slot step by step, and back at once.
func checkMove(t *testing.T, c *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	const a, b = "{moving}a", "{moving}b"
	ctx := t.Context()
	slot := c.Slot(a)
	from, to := c.MasterOf(slot), c.Masters()[0]
	if from == to {
		to = c.Masters()[1]
	}
	if err := rdb.MSet(ctx, a, 1, b, 2).Err(); err != nil {
		t.Fatal(err)
	}
	m := c.StartMove(slot, to)
	m.Keys(a)
	if err := from.Client().Get(ctx, a).Err(); !redis.HasErrorPrefix(err, "ASK") {
		t.Errorf("GET of a key that has moved: got %v, want ASK", err)
	}
	if err := from.Client().MGet(ctx, a, b).Err(); !redis.HasErrorPrefix(err, "TRYAGAIN") {
		t.Errorf("MGET of keys on both sides: got %v, want TRYAGAIN", err)
	}
	if got, err := rdb.Get(ctx, a).Int(); got != 1 || err != nil {
		t.Errorf("GET through the cluster client: got %d, %v, want 1", got, err)
	}
	m.Keys()
	m.Finish()
	if err := from.Client().Get(ctx, a).Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("GET after the move: got %v, want MOVED", err)
	}
	if got := c.MasterOf(slot); got != to {
		t.Errorf("master after the move: got %s, want %s", got.Addr, to.Addr)
	}
	c.StartMove(slot, from).Cancel()
	c.MoveSlot(slot, from)
	if got, err := rdb.Get(ctx, b).Int(); got != 2 || err != nil {
		t.Errorf("GET after the way back: got %d, %v, want 2", got, err)
	}
}

// checkPromote promotes a replica and then the old master.
func checkPromote(t *testing.T, c *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	old := c.Masters()[0]
	replica := c.ReplicasOf(old)[0]
	start := time.Now()
	c.Promote(replica)
	t.Logf("promoted in %v", time.Since(start).Round(time.Millisecond))
	if r := c.ReplicasOf(replica); len(r) != 1 || r[0] != old {
		t.Errorf("replicas of the promoted: got %d, want the old master", len(r))
	}
	set(t, rdb)
	c.Promote(old)
}

// checkKill kills a master, has its replica take over, and kills that. It
// leaves the cluster without one node.
func checkKill(t *testing.T, c *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	old := c.Masters()[1]
	replica := c.ReplicasOf(old)[0]
	old.Kill()
	c.Promote(replica)
	set(t, rdb)
	old.Restart()
	redistest.Eventually(t, 10*time.Second, "the old master follows", func() bool {
		r := c.ReplicasOf(replica)
		return len(r) == 1 && r[0] == old
	})
	c.Settle()

	start := time.Now()
	replica.Kill()
	redistest.Eventually(t, 20*time.Second, "a failover", func() bool { return old.Info("replication", "role") == "master" })
	c.Settle()
	t.Logf("failed over in %v", time.Since(start).Round(time.Millisecond))
	set(t, rdb)
}

// set writes to all masters.
func set(t *testing.T, rdb *redis.ClusterClient) {
	t.Helper()
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() })
	if err != nil {
		t.Errorf("PING to all masters: %v", err)
	}
	for i := range 100 {
		redistest.Eventually(t, 5*time.Second, "a SET", func() bool { return rdb.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err() == nil })
	}
}

func TestSmallCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Masters(1), redistest.Replicas(0), redistest.Password("secret"))
	c.Nodes[0].Do("SET", "k", "v")
	if got := c.MasterOf(0); got != c.Nodes[0] {
		t.Errorf("master of slot 0: got %s, want %s", got.Addr, c.Nodes[0].Addr)
	}
}
