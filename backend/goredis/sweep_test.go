package goredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// addrs returns the addresses that the cluster keeps a server for.
func (c *cluster) addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	for _, s := range c.servers {
		addrs = append(addrs, portOf(s.name))
	}
	slices.Sort(addrs)
	return addrs
}

// remembered returns the addresses that some slot was last seen at.
func (c *cluster) remembered() []string {
	seen := map[string]bool{}
	for i := range c.at {
		if s := c.at[i].Load(); s != nil {
			seen[portOf(s.name)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// A slotMap is one that a test draws: each of the addresses has a fair part.
type slotMap struct{ addrs atomic.Pointer[[]string] }

// portOf returns the port of an address with its colon: from a map that no server
// told, the client leaves out the host.
func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':'):] }

func (m *slotMap) set(servers ...*redistest.Server) {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	m.addrs.Store(&addrs)
}

func (m *slotMap) slots(context.Context) ([]redis.ClusterSlot, error) {
	addrs := *m.addrs.Load()
	var all []redis.ClusterSlot
	for i, addr := range addrs {
		all = append(all, redis.ClusterSlot{
			Start: i * slots / len(addrs), End: (i+1)*slots/len(addrs) - 1,
			Nodes: []redis.ClusterNode{{Addr: addr}},
		})
	}
	return all, nil
}

// drawn returns a backend on servers that are a cluster only to its client.
func drawn(t *testing.T, m *slotMap) (*Backend, *cluster) {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: m.slots})
	b, err := New(client, WithBudget(10*time.Second), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return b, b.topology.(*cluster)
}

// callers calls for keys that are spread over all slots.
func callers(t *testing.T, b *Backend, l *ratelimit.Limit) {
	t.Helper()
	for i := range 20 {
		took(t, b, l, Key(Text(fmt.Sprint("caller-", i))))
	}
}

// serverAt returns what the cluster keeps for an address, or nil.
func (c *cluster) serverAt(addr string) *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		if portOf(s.name) == portOf(addr) {
			return s
		}
	}
	return nil
}

// sweepOften has servers that vanished looked for with each call.
func (c *cluster) sweepOften() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every = 0
}

func TestNodesThatVanishAreDropped(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	old, stays, comes := servers[0], servers[1], servers[2]
	m := &slotMap{}
	m.set(old, stays)
	b, c := drawn(t, m)
	l := limit(t, "b", 1e6, time.Hour)
	callers(t, b, l)
	if got, want := c.addrs(), addrsOf(old, stays); !slices.Equal(got, want) {
		t.Fatalf("there are servers for %v, want %v", got, want)
	}
	kept := c.serverAt(stays.Addr)
	once := ratelimit.Charge{Limit: l, Key: keyAt(t, c, l, old, "once"), Cost: 1} // and never again

	// Calls are under way at a node when another one replaces it, or wait there.
	key := keyAt(t, c, l, old, "caller")
	old.Pause()
	waiting := make(chan error, flightsPerServer+1)
	for range cap(waiting) {
		go func() {
			waiting <- b.Take(context.Background(), []ratelimit.Charge{{Limit: l, Key: key, Cost: 1}}, make([]ratelimit.Verdict, 1))
		}()
	}
	at := c.serverAt(old.Addr)
	redistest.Eventually(t, 10*time.Second, "a call under way", func() bool { return !at.idle() })
	m.set(comes, stays)
	c.client.ReloadState(t.Context())
	redistest.Eventually(t, 10*time.Second, "the new node", func() bool {
		master, err := c.client.MasterForKey(t.Context(), keyOf(l, key))
		return err == nil && portOf(master.Options().Addr) == portOf(comes.Addr)
	})
	c.sweepOften()
	redistest.Eventually(t, 10*time.Second, "the old node to be dropped", func() bool {
		callers(t, b, l)
		return slices.Equal(c.addrs(), addrsOf(stays, comes)) && slices.Equal(c.remembered(), addrsOf(stays, comes))
	})
	if got := portOf(b.Shard(&once)); got != portOf(comes.Addr) {
		t.Errorf("the shard of a slot that was at the old node is %s, want %s", got, portOf(comes.Addr))
	}
	if c.serverAt(stays.Addr) != kept {
		t.Error("the node that stays has a new combiner, want its old one")
	}
	old.Resume()
	for range cap(waiting) {
		if err := <-waiting; err != nil {
			t.Errorf("a call at a node that vanished: got %v, want its answer", err)
		}
	}
	redistest.Eventually(t, 10*time.Second, "nothing to be under way at the node that vanished", at.idle)
}

func addrsOf(servers ...*redistest.Server) []string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, portOf(s.Addr))
	}
	slices.Sort(addrs)
	return addrs
}

// keyAt returns a key that a node has.
func keyAt(t *testing.T, c *cluster, l *ratelimit.Limit, node *redistest.Server, name string) []byte {
	t.Helper()
	for i := range 1000 {
		key := Key(Text(fmt.Sprint(name, "-", i)))
		s, _, err := c.route(t.Context(), keyOf(l, key))
		if err != nil {
			t.Fatal(err)
		}
		if portOf(s.name) == portOf(node.Addr) {
			return key
		}
	}
	t.Fatalf("no key is at %s", node.Addr)
	return nil
}

// On a real cluster: a master dies, its replica takes over, and all forget it.
func TestMastersThatDieAreDropped(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	b := opened(t, nodes.URL())
	c := b.topology.(*cluster)
	l := limit(t, "b", 1e6, time.Hour)
	callers(t, b, l)
	old := nodes.Masters()[0]
	replica := nodes.ReplicasOf(old)[0]
	id := old.Do("CLUSTER", "MYID")
	old.Kill()
	nodes.Promote(replica)
	for _, s := range nodes.Nodes {
		if s != old {
			s.Do("CLUSTER", "FORGET", id)
		}
	}
	masters := addrsOf(nodes.Masters()...)
	c.sweepOften()
	redistest.Eventually(t, 10*time.Second, "the dead master to be dropped", func() bool {
		for i := range 20 {
			charge := ratelimit.Charge{Limit: l, Key: Key(Text(fmt.Sprint("caller-", i))), Cost: 1}
			_ = b.Take(t.Context(), []ratelimit.Charge{charge}, make([]ratelimit.Verdict, 1)) // the dead one answers none
		}
		return slices.Equal(c.addrs(), masters) && slices.Equal(c.remembered(), masters)
	})
	callers(t, b, l)
}

// As long as the cluster does not say who its masters are, nobody is dropped.
func TestNobodyIsDroppedBlindly(t *testing.T) {
	s := redistest.Start(t)
	m := &slotMap{}
	m.set(s)
	b, c := drawn(t, m)
	l := limit(t, "b", 1e6, time.Hour)
	callers(t, b, l)
	if err := c.client.Close(); err != nil {
		t.Fatal(err)
	}
	c.sweep()
	if got, want := c.addrs(), addrsOf(s); !slices.Equal(got, want) {
		t.Errorf("there are servers for %v, want %v", got, want)
	}
	if err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Cost: 1}}, make([]ratelimit.Verdict, 1)); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("through a closed client: got %v, want an outage", err)
	}
}
