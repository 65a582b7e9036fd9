package goredis

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

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
	known  atomic.Bool // the client has the slots of the cluster

	mu      sync.Mutex
	attempt *attempt // under way to learn them
	servers map[*redis.Client]*server
	at      [slots]atomic.Pointer[server] // who had a slot last
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
		s = newServer(master, c.client, c.config)
		s.name = master.Options().Addr
		c.servers[master] = s
	}
	if c.at[slot].Load() != s {
		c.at[slot].Store(s)
	}
	return s, slot, nil
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
	c.attempt = a
	go func() {
		a.err = c.load()
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
		c.known.Store(a.err == nil)
		close(a.done)
	}()
	return a
}

// load has the client load the slots of the cluster.
func (c *cluster) load() (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.Background(), c.config.patience)
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
