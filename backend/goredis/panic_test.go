package goredis_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// A trap is a hook of a client that panics while it is set.
type trap struct{ set atomic.Bool }

func (p *trap) spring() {
	if p.set.Load() {
		panic("trapped")
	}
}

func (p *trap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (p *trap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.spring()
		return next(ctx, cmd)
	}
}

func (p *trap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.spring()
		return next(ctx, cmds)
	}
}

// The backend calls hooks on goroutines of its own, where no handler of the
// program would recover them.
func TestPanicOfAHookIsABug(t *testing.T) {
	client, hook := dialServer(t, redistest.Shared(t)), &trap{}
	client.AddHook(hook)
	b, limit := open(t, client), burstOf(t, "b", 1, 10)
	granted := mustTake(t, b, chargeOf(limit, "k"))
	hook.set.Store(true)
	err := b.Take(t.Context(), []ratelimit.Charge{chargeOf(limit, "k")}, make([]ratelimit.Verdict, 1))
	if !errors.Is(err, ratelimit.ErrBackendBug) {
		t.Errorf("Take returns %v, want a bug", err)
	}
	back := []ratelimit.Delta{{Limit: limit, Key: []byte("k"), Cost: 1, Units: -1, Receipt: granted[0].Receipt}}
	if err := b.Adjust(t.Context(), back); !errors.Is(err, ratelimit.ErrBackendBug) {
		t.Errorf("Adjust returns %v, want a bug", err)
	}
	hook.set.Store(false)
	if !take(t, b, chargeOf(limit, "k")) {
		t.Error("a call after the panic is refused")
	}
}
