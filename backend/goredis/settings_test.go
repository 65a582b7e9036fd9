package goredis_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// silence is a logger that nobody reads.
func silence(testing.TB) *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestNewRefusesSettings(t *testing.T) {
	for _, test := range []struct {
		name   string
		client redis.UniversalClient
		want   []string
	}{
		{"no timeouts", redis.NewClient(&redis.Options{ReadTimeout: -1, WriteTimeout: -1}), []string{"ReadTimeout is none", "WriteTimeout is none"}},
		{"no deadlines", redis.NewClient(&redis.Options{ReadTimeout: -2, ContextTimeoutEnabled: true}), []string{"ReadTimeout is none"}},
		{"cluster without timeouts", redis.NewClusterClient(&redis.ClusterOptions{ReadTimeout: -2, WriteTimeout: -1}), []string{"ReadTimeout is none", "WriteTimeout is none"}},
		{"reads of replicas", redis.NewClusterClient(&redis.ClusterOptions{RouteByLatency: true, ReadTimeout: -1}), []string{"RouteByLatency is true", "ReadOnly is true", "ReadTimeout is none"}},
		{"ring", redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}}), []string{"*redis.Ring", "want a *redis.Client or *redis.ClusterClient"}},
		{"nil", nil, []string{"want a *redis.Client or *redis.ClusterClient"}},
		{"nil client", (*redis.Client)(nil), []string{"not nil"}},
		{"nil cluster", (*redis.ClusterClient)(nil), []string{"not nil"}},
		{"a wrapper", struct{ redis.UniversalClient }{}, []string{"want a *redis.Client or *redis.ClusterClient"}},
	} {
		_, err := goredis.New(test.client, goredis.WithLogger(silence(t)))
		if err == nil {
			t.Errorf("%s: got no error", test.name)
		}
		for _, want := range test.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %q, want one with %q", test.name, err, want)
			}
		}
		if test.client != nil && !strings.HasPrefix(test.name, "nil") && test.name != "a wrapper" {
			_ = test.client.Close()
		}
	}
}

// The defaults of go-redis are accepted, with one warning that names each
// setting that makes an outage longer.
func TestNewWarnsOfDefaults(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	client := closing(t, redis.NewClient(&redis.Options{}))
	if _, err := goredis.New(client, goredis.WithLogger(logger)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ReadTimeout is 5s, want 1s or less", "DialerRetries is 5, want 1", "MaintNotificationsConfig.Mode is auto, want disabled"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log is %q, want one with %q", log.String(), want)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines of log, want 1: %s", lines, log.String())
	}
	log.Reset()
	for _, url := range []string{"redis://localhost:1", "redis+cluster://localhost:1", "redis://localhost:1?master_name=main"} {
		client, err := goredis.NewClient(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := goredis.New(closing(t, client), goredis.WithLogger(logger)); err != nil || log.Len() > 0 {
			t.Errorf("New of NewClient(%s): error %v, log %q, want neither", url, err, log.String())
		}
	}
}

// A deaf network makes writes vanish while it is so, and for ever on connections
// that it was so for: to the client the server is silent, until it dials anew.
type deaf struct {
	mu    sync.Mutex
	now   bool
	conns []*deafConn
}

type deafConn struct {
	net.Conn
	vanish atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.vanish.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (d *deaf) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &deafConn{Conn: conn}
	d.mu.Lock()
	defer d.mu.Unlock()
	c.vanish.Store(d.now)
	d.conns = append(d.conns, c)
	return c, nil
}

func (d *deaf) set(now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
	for _, c := range d.conns {
		if now {
			c.vanish.Store(true)
		}
	}
}

// Whatever the client's settings, a decision ends within its budget while the
// server is silent; how soon decisions are made again is the socket's timeout.
func TestSilentServerAndSettings(t *testing.T) {
	t.Parallel()
	for _, read := range []time.Duration{time.Second, 2 * time.Second} {
		t.Run(read.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			d := &deaf{}
			client := closing(t, redis.NewClient(&redis.Options{
				Addr: s.Addr, Dialer: d.dial, ReadTimeout: read, DialerRetries: 1, MaintNotificationsConfig: quietly(),
			}))
			const budget = 50 * time.Millisecond
			b, err := goredis.New(client, goredis.WithLogger(silence(t)), goredis.WithBudget(budget))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			charges := []ratelimit.Charge{chargeOf(burstOf(t, "b", 1e6, 1e6), "a")}
			verdicts := make([]ratelimit.Verdict, 1)
			redistest.Eventually(t, 5*time.Second, "a decision", func() bool { return b.Take(t.Context(), charges, verdicts) == nil })

			d.set(true)
			struck := time.Now()
			for range 2 { // as many batches as may be under way
				if err := b.Take(t.Context(), charges, verdicts); !errors.Is(err, ratelimit.ErrUnavailable) {
					t.Errorf("got %v, want an outage", err)
				}
			}
			d.set(false)
			for {
				start := time.Now()
				err := b.Take(t.Context(), charges, verdicts)
				if took := time.Since(start); took > budget+read/2 {
					t.Errorf("a decision took %v, want about the budget of %v", took, budget)
				}
				if err == nil {
					break
				}
				if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
					t.Fatalf("got %v, want an outage", err)
				}
				if time.Since(struck) > 3*read+5*time.Second {
					t.Fatalf("no decision after %v", time.Since(struck))
				}
			}
			if took := time.Since(struck); took < read*8/10 {
				t.Errorf("decisions were made again after %v, want about %v: was it silent?", took, read)
			}
		})
	}
}

// A cold pool whose connections take longer to open than a decision may take
// becomes warm, and is not dialled for by each call that comes meanwhile.
func TestColdPoolIsNotStormed(t *testing.T) {
	const handshake, budget = 60 * time.Millisecond, 20 * time.Millisecond
	built := newClient(t, redistest.Start(t).URL()).(*redis.Client)
	o := *built.Options()
	var dials atomic.Int64
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		time.Sleep(handshake)
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, addr)
	}
	b, err := goredis.New(closing(t, redis.NewClient(&o)), goredis.WithLogger(silence(t)), goredis.WithBudget(budget))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	l := burstOf(t, "b", 1e6, 1e6)
	var calls sync.WaitGroup
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for range 300 {
		<-ticker.C
		calls.Go(func() {
			_ = b.Take(context.Background(), []ratelimit.Charge{chargeOf(l, "a")}, make([]ratelimit.Verdict, 1))
		})
	}
	calls.Wait()
	if n := dials.Load(); n > int64(2*o.PoolSize) {
		t.Errorf("%d connections were dialled, want at most %d: twice the pool", n, 2*o.PoolSize)
	}
	redistest.Eventually(t, 5*time.Second, "a decision from the warm pool", func() bool {
		return b.Take(t.Context(), []ratelimit.Charge{chargeOf(l, "a")}, make([]ratelimit.Verdict, 1)) == nil
	})
}

// With retries of the client on, and a read timeout that strikes after the
// script was sent, a call is charged once: on one server, and on a cluster.
func TestRetriesOfTheClientDoNotCharge(t *testing.T) {
	single, cluster := redistest.Start(t), redistest.StartCluster(t, redistest.Replicas(0))
	for _, test := range []struct {
		name    string
		client  redis.UniversalClient
		servers []*redistest.Server
	}{
		{"single", redis.NewClient(&redis.Options{Addr: single.Addr, ReadTimeout: 60 * time.Millisecond, MaxRetries: 5}), []*redistest.Server{single}},
		{"cluster", redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), ReadTimeout: 60 * time.Millisecond, MaxRetries: 5, MaxRedirects: 5,
		}), cluster.Nodes},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := goredis.New(closing(t, test.client), goredis.WithLogger(silence(t)), goredis.WithBudget(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			l := limitOf(t, "b", ratelimit.FixedWindow, 100, 24*time.Hour)
			mustTake(t, b, chargeOf(l, "a"))
			for _, s := range test.servers {
				s.Pause()
			}
			err = b.Take(t.Context(), []ratelimit.Charge{chargeOf(l, "a")}, make([]ratelimit.Verdict, 1))
			if !errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("while the servers are silent: got %v, want an outage", err)
			}
			for _, s := range test.servers {
				s.Resume()
			}
			var left int64
			redistest.Eventually(t, 5*time.Second, "a decision", func() bool {
				verdicts := make([]ratelimit.Verdict, 1)
				err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Key: []byte("a")}}, verdicts)
				left = verdicts[0].Remaining
				return err == nil
			})
			if left < 98 {
				t.Errorf("%d of 100 left after 2 calls, want at least 98", left)
			}
		})
	}
}
