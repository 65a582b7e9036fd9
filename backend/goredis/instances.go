package goredis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
)

const (
	// heartbeatEvery is how often an instance says that it lives.
	heartbeatEvery = 5 * time.Second
	// heartbeatsMissed is how many may be missed before it is not counted.
	heartbeatsMissed = 3
)

//go:embed lua/instances.lua
var instancesSource string

var instancesScript = &script{source: instancesSource, hash: redis.NewScript(instancesSource).Hash()}

// A fleet is the instances that share a Redis and a namespace, as one of them
// sees it. The key <namespace>:instances has who was heard when.
type fleet struct {
	joined atomic.Bool
	known  atomic.Int64 // the last number, 0 while none is known

	// Of the goroutine that sends heartbeats.
	heard bool      // the last heartbeat was answered
	since time.Time // and all since then
	most  time.Time // when as many as are known were last heard
}

// Instances implements [ratelimit.Counter]. An instance counts from its first
// decision until it is closed, or has not been heard for 15 seconds; until this
// one's first decision the number is 1.
func (b *Backend) Instances() int { return max(int(b.fleet.known.Load()), 1) }

// join begins the heartbeats of a backend, once.
func (f *fleet) join(b *Backend) {
	if f.joined.Swap(true) {
		return
	}
	b.behind.start(func() {
		id := rand.Text()
		ticker := time.NewTicker(b.heartbeat)
		defer ticker.Stop()
		warned := false
		for {
			n, err := b.beat(id, true)
			f.note(n, err, time.Now(), heartbeatsMissed*b.heartbeat)
			if errors.Is(err, ratelimit.ErrBackendBug) && !warned {
				warned = true
				b.logger.Warn("goredis: instances cannot be counted, each takes itself for the only one",
					"error", err, "remedy", remedyOf(err, "ACL SETUSER <user> +zadd +zrem +zremrangebyscore +zcard +pexpire +time ~"+b.namespace+":*"))
			}
			select {
			case <-ticker.C:
			case <-b.behind.ctx.Done():
				if f.heard {
					_, _ = b.beat(id, false) // else the others count it for a while
				}
				return
			}
		}
	})
}

// note takes in the answer to a heartbeat. What is away stays counted: the last
// number holds while Redis is away and, since the others may have been away too,
// at least that until each had the time to be heard.
func (f *fleet) note(n int, err error, now time.Time, life time.Duration) {
	if err != nil {
		f.heard = false
		return
	}
	if !f.heard {
		f.heard, f.since = true, now
	}
	// Fewer than are known may only mean that Redis lost its memory, and the others
	// have not been heard since.
	if known := int(f.known.Load()); n < known && (now.Sub(f.since) < life || now.Sub(f.most) < life) {
		return
	}
	f.known.Store(int64(n))
	f.most = now
}

// beat says that this instance lives or leaves, and returns how many live.
func (b *Backend) beat(id string, lives bool) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.patience)
	defer cancel()
	key := b.namespace + ":instances"
	s, _, err := b.topology.route(ctx, key)
	if err != nil {
		return 0, classify(err)
	}
	state := 0
	if lives {
		state = 1
	}
	life := (heartbeatsMissed * b.heartbeat).Milliseconds()
	cmd, err := s.call(ctx, func(full bool) []any {
		return []any{scriptName(full), scriptText(instancesScript, full), 1, key, id, life, state}
	})
	if err != nil {
		return 0, classify(err)
	}
	n, err := cmd.Int()
	if err != nil {
		return 0, bug(err)
	}
	return n, nil
}
