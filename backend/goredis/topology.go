package goredis

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A topology says which server has a key.
type topology interface {
	// route returns the server of a key and its slot: keys of one slot may share
	// a script. It may dial; it returns by the end of ctx, or when closed.
	route(ctx context.Context, key string) (*server, int, error)
	// crossed is told that keys of one slot were refused as being of several. It
	// returns whether they would be split now.
	crossed() bool
}

// single is one server. It has no slots, until it turns out to be a cluster
// behind one address.
type single struct {
	*server
	split atomic.Bool
}

func (s *single) route(_ context.Context, key string) (*server, int, error) {
	if s.split.Load() {
		return s.server, slotOf(key), nil
	}
	return s.server, 0, nil
}

func (s *single) crossed() bool {
	s.split.Store(true)
	return true
}

// cluster is a Redis Cluster: a combiner for each master, so that a silent one
// holds up nobody else's calls.
type cluster struct {
	client *redis.ClusterClient
	config *config
	known  atomic.Bool // the client has the slots of the cluster

	mu      sync.Mutex
	servers map[*redis.Client]*server
}

func (c *cluster) route(ctx context.Context, key string) (*server, int, error) {
	master, err := c.master(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[master]
	if s == nil {
		s = newServer(master, c.client, c.config)
		c.servers[master] = s
	}
	return s, slotOf(key), nil
}

// master returns the client of the master that has a key. As long as the slots
// are not known the client dials, and not under ctx: what it learns is for all.
func (c *cluster) master(ctx context.Context, key string) (*redis.Client, error) {
	if c.known.Load() {
		return c.client.MasterForKey(ctx, key)
	}
	type answer struct {
		master *redis.Client
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		dial, cancel := context.WithTimeout(context.Background(), c.config.patience)
		defer cancel()
		master, err := c.client.MasterForKey(dial, key)
		if err == nil {
			c.known.Store(true)
		}
		answers <- answer{master, err}
	}()
	select {
	case a := <-answers:
		return a.master, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cluster) crossed() bool { return false }
