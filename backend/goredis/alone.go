package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// longestAlone is the longest budget of which a call that nobody else's is
	// beside goes out from its caller's own goroutine: so long it may take until
	// the caller sees that its context was cancelled.
	longestAlone = 20 * time.Millisecond
	// barredTime is how long no call does that after one was late, which costs its
	// connection: a stall costs one a second, not one a call.
	barredTime = time.Second
	// promptTime is how long a client is used whose reads end with the context.
	// Hooks that the caller's client got in the meantime are then seen.
	promptTime = time.Second
)

// alone is what a server knows of calls that go out from their callers' own
// goroutines. That spares them two hand-overs, each of which wakes a thread on a
// processor that Redis may need.
type alone struct {
	barred atomic.Int64 // until when, in ns since processStart
	prompt atomic.Pointer[promptClient]
}

// A promptClient shares the connections of a client, but its reads and writes end
// with their context.
type promptClient struct {
	*redis.Client
	until time.Duration // since processStart
}

// client returns the one to use now, or nil if calls are not to go out alone.
func (a *alone) client(of processor) *promptClient {
	now := time.Since(processStart)
	if int64(now) < a.barred.Load() {
		return nil
	}
	if c := a.prompt.Load(); c != nil && now < c.until {
		return c
	}
	client, ok := of.(*redis.Client)
	if !ok {
		return nil
	}
	o := client.Options()
	c := &promptClient{client.WithTimeout(max(o.ReadTimeout, o.WriteTimeout)), now + promptTime}
	c.Options().ContextTimeoutEnabled = true
	a.prompt.Store(c)
	return c
}

func (a *alone) bar() { a.barred.Store(int64(time.Since(processStart) + barredTime)) }

// decideAlone decides a request from its caller's goroutine, if nothing is under
// way or waits, and this server has answered lately. Else it returns false, and
// nothing was charged.
func (s *server) decideAlone(ctx context.Context, r *request, budget time.Duration) (decided bool, err error) {
	if budget > longestAlone || !s.greeting.done.Load() {
		return false, nil
	}
	client := s.alone.client(s.client)
	if client == nil || !s.begin() {
		return false, nil
	}
	defer s.end()
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	b := s.batches.Get().(*batch)
	defer s.put(b)
	b.slot, b.script = r.slot, r.script()
	b.add(r)
	b.choose()
	cmd := command{redis.NewCmd(within, b.arguments(false, s.now())...)}
	err = client.ask(within, cmd)
	if isRedirect(err) || isNoScript(err) { // it did not run
		return false, nil
	}
	if isTimeout(err) {
		s.alone.bar()
	}
	if err != nil && hasLeft(ctx) {
		return true, fmt.Errorf("goredis: %w", context.Cause(ctx))
	}
	s.noticed(within, err)
	if isTimeout(err) {
		return true, outage(errLate)
	}
	b.answer(cmd, err)
	return !r.large, r.err
}

// ask runs a command. A panic of a hook is its error.
func (c *promptClient) ask(ctx context.Context, cmd command) (err error) {
	defer recovered(&err)
	return c.Process(ctx, cmd)
}

// isTimeout tells whether a client has given up waiting.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// hasLeft tells whether a context has ended, or will have at once.
func hasLeft(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}
