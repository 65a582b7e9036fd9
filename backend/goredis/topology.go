package goredis

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// sweepEvery is how often a cluster's servers are compared with those that the
// client still has, which drops a node a minute after it has seen it last.
const sweepEvery = time.Minute

// A topology says which server has a key.
type topology interface {
	// route returns the server of a key and its slot: keys of one slot may share
	// a script. It may dial, and returns within the budget and by the end of ctx.
	route(ctx context.Context, key string) (*server, int, error)
	// crossed is told that keys of one slot were refused as being of several. It
	// returns whether they would be split now.
	crossed() bool
	// keyOf returns a key that a server has, of the form head, a number, tail.
	keyOf(ctx context.Context, client *redis.Client, head, tail string) (string, bool)
}

// single is one server. It has no slots, until it turns out to be a cluster
// behind one address.
type single struct {
	*server
	logger *slog.Logger
	split  atomic.Bool
}

func (s *single) route(_ context.Context, key string) (*server, int, error) {
	if s.split.Load() {
		return s.server, slotOf(key), nil
	}
	return s.server, 0, nil
}

func (s *single) crossed() bool {
	if !s.split.Swap(true) {
		s.logger.Warn("goredis: the server is a cluster behind one address: the rules of a call are decided one by one for each of its keys",
			"remedy", "give NewClient a redis+cluster URL, or New a *redis.ClusterClient")
	}
	return true
}

func (s *single) keyOf(_ context.Context, _ *redis.Client, head, tail string) (string, bool) {
	return head + "0" + tail, true
}

// cluster is a Redis Cluster: a combiner for each master, so that a silent one
// holds up nobody else's calls.
type cluster struct {
	client *redis.ClusterClient
	config *config
	behind *behind
	every  time.Duration // between two sweeps
	known  atomic.Bool   // the client has the slots of the cluster

	mu      sync.Mutex
	attempt *attempt // under way to learn them
	servers map[*redis.Client]*server
	swept   time.Time                     // when a sweep last began
	at      [slots]atomic.Pointer[server] // who had a slot last
}

func clusterOf(client *redis.ClusterClient, config *config, b *behind) *cluster {
	return &cluster{
		client: client, config: config, behind: b, every: sweepEvery,
		servers: map[*redis.Client]*server{}, swept: time.Now(),
	}
}

func (c *cluster) route(ctx context.Context, key string) (*server, int, error) {
	master, err := c.master(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	slot := slotOf(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[master]
	if s == nil {
		s = newServer(c.behind, master, c.client, c.config)
		s.name = master.Options().Addr
		c.servers[master] = s
	}
	if c.at[slot].Load() != s {
		c.at[slot].Store(s)
	}
	if len(c.servers) > 1 && time.Since(c.swept) >= c.every {
		c.swept = time.Now()
		c.behind.start(c.sweep)
	}
	return s, slot, nil
}

// sweep drops the servers that are no masters any more. What waits in them is
// still answered: a batch that is under way takes it along. Their connections
// are the cluster's client's, which closes them; should it keep one as a replica
// that is promoted again, its server is made anew.
func (c *cluster) sweep() {
	var err error // what a hook of the client panics with, decisions tell
	defer recovered(&err)
	c.mu.Lock()
	before := slices.Collect(maps.Keys(c.servers)) // what comes later is newer than the answer
	c.mu.Unlock()
	masters, err := c.masters()
	if err != nil {
		return // those that are known go on; the next sweep asks again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := map[*server]bool{}
	for _, client := range before {
		if !slices.Contains(masters, client) {
			gone[c.servers[client]] = true
			delete(c.servers, client)
		}
	}
	if len(gone) == 0 {
		return
	}
	for i := range c.at {
		if gone[c.at[i].Load()] {
			c.at[i].Store(nil)
		}
	}
}

// masters asks the cluster for its masters.
func (c *cluster) masters() ([]*redis.Client, error) {
	ctx, cancel := context.WithTimeout(c.behind.ctx, c.config.patience)
	defer cancel()
	var mu sync.Mutex
	var masters []*redis.Client
	err := c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, client)
		return nil
	})
	return masters, err
}

// master returns the client of the master that has a key.
func (c *cluster) master(ctx context.Context, key string) (*redis.Client, error) {
	if !c.known.Load() {
		a := c.learn()
		timer := time.NewTimer(c.config.budget)
		defer timer.Stop()
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.behind.ctx.Done():
			return nil, errClosed
		case <-timer.C:
			return nil, errLate
		}
		if a.err != nil {
			return nil, a.err
		}
	}
	return c.client.MasterForKey(ctx, key)
}

// An attempt is one to learn who has the slots, for all who wait for it.
type attempt struct {
	done chan struct{} // closed at its end
	err  error
}

// learn returns the attempt under way, or begins one. It dials, and not under a
// caller's context: what is learnt is for all.
func (c *cluster) learn() *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != nil {
		return c.attempt
	}
	a := &attempt{done: make(chan struct{})}
	started := c.behind.start(func() {
		a.err = c.load()
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
		c.known.Store(a.err == nil)
		close(a.done)
	})
	if !started {
		a.err = errClosed
		close(a.done)
		return a
	}
	c.attempt = a
	return a
}

// load has the client load the slots of the cluster.
func (c *cluster) load() (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(c.behind.ctx, c.config.patience)
	defer cancel()
	_, err = c.client.MasterForKey(ctx, "any")
	return err
}

func (c *cluster) crossed() bool { return false }

// keyOf tries numbers: a master has a fair part of the slots, or few.
func (c *cluster) keyOf(ctx context.Context, client *redis.Client, head, tail string) (string, bool) {
	for i := range slots {
		key := head + strconv.Itoa(i) + tail
		if master, err := c.client.MasterForKey(ctx, key); err != nil {
			break
		} else if master == client {
			return key, true
		}
	}
	return "", false
}
