package redistest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// proxied returns a server, a proxy to it and a client through the proxy that
// has one connection.
func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy, *redis.Client) {
	t.Helper()
	s := redistest.Shared(t)
	p := redistest.NewProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{
		Addr: p.Addr, DB: s.DB(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 1,
	})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return s, p, c
}

// incr adds one to the key and waits for the answer for 30 ms.
func incr(t *testing.T, c *redis.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	return c.Incr(ctx, "k").Err()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestProxyPass(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	before := p.Stats()
	for range 10 {
		if err := c.Incr(t.Context(), "k").Err(); err != nil {
			t.Fatal(err)
		}
	}
	after := p.Stats()
	if trips := after.RoundTrips - before.RoundTrips; trips != 10 {
		t.Errorf("round trips of 10 commands: got %d", trips)
	}
	if after.Accepted != 1 || after.Live != 1 || after.Requests <= before.Requests || after.Replies <= before.Replies {
		t.Errorf("got %+v, want one connection, and more bytes than %+v", after, before)
	}
	pipe := c.Pipeline()
	for range 10 {
		pipe.Incr(t.Context(), "k")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Do("GET", "k"); got != "20" {
		t.Errorf("k: got %v, want 20", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 5*time.Second, "no live connection", func() bool { return p.Stats().Live == 0 })
}

func TestProxyRefuse(t *testing.T) {
	t.Parallel()
	_, p, c := proxied(t)
	p.Refuse()
	redistest.Eventually(t, 5*time.Second, "a refused connection", func() bool { return errors.Is(incr(t, c), syscall.ECONNREFUSED) })
	p.Pass()
	// The client remembers for up to a second that it was refused.
	redistest.Eventually(t, 5*time.Second, "INCR after all", func() bool { return incr(t, c) == nil })
}

func TestProxySwallow(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	raw, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, raw)
	p.Swallow()
	if _, err := io.WriteString(raw, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := incr(t, c); !timedOut(err) {
			t.Errorf("INCR swallowed: got %v, want a timeout", err)
		}
	}
	p.Pass()
	if err := c.Incr(t.Context(), "k").Err(); err != nil {
		t.Errorf("INCR by a new connection: %v", err)
	}
	if got := s.Do("GET", "k"); got != "1" {
		t.Errorf("k: got %v, want 1", got)
	}
	if err := raw.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := raw.Read(make([]byte, 10)); n != 0 || !timedOut(err) {
		t.Errorf("a connection that was swallowed from: got %d bytes, %v, want none and no end", n, err)
	}
}

func TestProxyHold(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	p.Hold()
	if err := incr(t, c); !timedOut(err) {
		t.Errorf("INCR held back: got %v, want a timeout", err)
	}
	done := make(chan error)
	go func() { done <- c.Incr(t.Context(), "k").Err() }()
	p.Pass()
	if err := <-done; err != nil {
		t.Errorf("INCR over a hold: %v", err)
	}
	redistest.Eventually(t, 5*time.Second, "the one that timed out, late", func() bool { return s.Do("GET", "k") == "2" })
}

func TestProxyDelay(t *testing.T) {
	t.Parallel()
	_, p, c := proxied(t)
	const d = 20 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	pipe := c.Pipeline()
	for range 100 {
		pipe.Incr(t.Context(), "k")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*d || took > 20*d {
		t.Errorf("a pipeline took %v, want a little more than %v", took, 2*d)
	}
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	p.CutReplies(0)
	if err := incr(t, c); !errors.Is(err, io.EOF) {
		t.Errorf("INCR with its reply cut: got %v, want EOF", err)
	}
	if got := s.Do("GET", "k"); got != "1" {
		t.Errorf("k after a cut reply: got %v, want 1", got)
	}
	p.Pass()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.CutReplies(2)
	if err := incr(t, c); err == nil {
		t.Error("INCR with its reply cut in two: got no error")
	}
	p.Pass()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.CutRequests(5)
	if err := incr(t, c); err == nil {
		t.Error("INCR cut in two: got no error")
	}
	if got := s.Do("GET", "k"); got != "2" {
		t.Errorf("k after a cut request: got %v, want 2", got)
	}
}

func TestProxyFlaky(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	p.Flaky(1)
	if err := incr(t, c); err == nil {
		t.Error("INCR, all failing: got no error")
	}
	p.Flaky(0.2)
	failed := 0
	for range 500 {
		if c.Incr(t.Context(), "k").Err() != nil {
			failed++
		}
	}
	// The first packet of a connection is a greeting, so some fail there.
	if failed < 50 || failed > 300 {
		t.Errorf("failed: got %d of 500, want about 130", failed)
	}
	if got, err := s.Client().Get(t.Context(), "k").Int(); got != 500-failed || err != nil {
		t.Errorf("k: got %d, %v, want %d", got, err, 500-failed)
	}
}

// TestProxyAtOnce switches while many use it.
func TestProxyAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.NewProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{Addr: p.Addr, DB: s.DB(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 8})
	defer closeIt(t, c)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = incr(t, c)
				}
			}
		})
	}
	faults := []func(){
		p.Pass, p.Refuse, p.Swallow, p.Hold, p.Drop, func() { p.Delay(time.Millisecond) },
		func() { p.CutReplies(10) }, func() { p.CutRequests(10) }, func() { p.Flaky(0.5) },
	}
	for range 5 {
		for _, fault := range faults {
			fault()
			_ = incr(t, c)
		}
	}
	close(stop)
	wg.Wait()
	p.Pass()
	redistest.Eventually(t, 5*time.Second, "PING in the end", func() bool { return c.Ping(t.Context()).Err() == nil })
}
