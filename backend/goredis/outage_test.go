package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
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

// A wave is what became of calls that were made at once.
type wave struct {
	took []time.Duration // sorted, stalls of the machine taken off
	errs []error         // of those that failed
}

// makeWave makes calls at once, each of its own caller.
func makeWave(b ratelimit.Backend, l *ratelimit.Limit, calls int) wave {
	stalls := startStallMeter()
	defer stalls.end()
	var mu sync.Mutex
	var w wave
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			charges, verdicts := []ratelimit.Charge{chargeOf(l, fmt.Sprint("caller-", i))}, make([]ratelimit.Verdict, 1)
			start := time.Now()
			err := b.Take(context.Background(), charges, verdicts)
			end := time.Now()
			took := end.Sub(start) - stalls.between(start, end)
			mu.Lock()
			defer mu.Unlock()
			w.took = append(w.took, took)
			if err != nil {
				w.errs = append(w.errs, err)
			}
		})
	}
	wg.Wait()
	slices.Sort(w.took)
	return w
}

// An outage is a way for a server to be away.
type outage struct {
	name       string
	begin, end func(*redistest.Server, *redistest.Proxy)
}

func outages() []outage {
	pass := func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }
	return []outage{
		{"suspended", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }},
		{"packets lost for good", func(_ *redistest.Server, p *redistest.Proxy) { p.Swallow() }, pass},
		{"packets lost for a time", func(_ *redistest.Server, p *redistest.Proxy) { p.Hold() }, pass},
		{"slow", func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(time.Second) }, pass},
		{"refusing", func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse() }, pass},
	}
}

const (
	outageBudget = 50 * time.Millisecond
	outageCalls  = 100
)

// checkAway fails the test if a wave in an outage was decided, or too late.
func (w *wave) checkAway(t *testing.T, what string) {
	t.Helper()
	if len(w.errs) < len(w.took) {
		t.Errorf("%s: %d of %d calls are decided", what, len(w.took)-len(w.errs), len(w.took))
	}
	for _, err := range w.errs {
		if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
			t.Fatalf("%s: a call is answered by %v, want an outage", what, err)
		}
	}
	if worst := w.took[len(w.took)-1]; worst > longestDecision {
		t.Errorf("%s: a call took %v, want at most %v", what, worst, longestDecision)
	}
}

func TestOutage(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			s := redistest.Start(t)
			proxy := redistest.NewProxy(t, s.Addr)
			b := open(t, dial(t, proxy.Addr, 0), goredis.WithBudget(outageBudget))
			limit := burstOf(t, "b", 1000, 1000)
			redistest.Eventually(t, 20*time.Second, "calls decided in time before the outage", func() bool {
				w := makeWave(b, limit, outageCalls)
				return len(w.errs) == 0
			})
			goroutines, before := runtime.NumGoroutine(), proxy.Stats()
			o.begin(s, proxy)
			start := time.Now()
			var worst time.Duration
			for time.Since(start) < 600*time.Millisecond {
				w := makeWave(b, limit, outageCalls)
				w.checkAway(t, "during")
				worst = max(worst, w.took[len(w.took)-1])
			}
			if now, most := runtime.NumGoroutine(), goroutines+20; now > most {
				t.Errorf("%d goroutines run, and %d did before the outage", now, goroutines)
			}
			if opened := proxy.Stats().Accepted - before.Accepted; opened > 50 {
				t.Errorf("%d connections were opened in the outage, want few", opened)
			}
			o.end(s, proxy)
			took := awaitDecision(t, b, chargeOf(limit, "k"))
			t.Logf("the worst of the calls took %v; decided %v after the end; %d connections opened, %d live",
				worst, took, proxy.Stats().Accepted-before.Accepted, proxy.Stats().Live)
			if took > 1500*time.Millisecond {
				t.Errorf("decided %v after the end, want sooner", took)
			}
		})
	}
}

// A backend that never had a connection is as bounded.
func TestOutageFromTheBeginning(t *testing.T) {
	s := redistest.Shared(t)
	for _, o := range outages()[1:] {
		t.Run(o.name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, s.Addr)
			o.begin(nil, proxy)
			limit := burstOf(t, "b", 1000, 1000)
			for name, client := range map[string]redis.UniversalClient{
				"one address": dial(t, proxy.Addr, s.DB()),
				"a cluster":   dialCluster(t, []string{proxy.Addr}),
			} {
				w := makeWave(open(t, client, goredis.WithBudget(outageBudget)), limit, outageCalls)
				w.checkAway(t, name)
				t.Logf("%s: the worst of the calls took %v", name, w.took[len(w.took)-1])
			}
		})
	}
}

func TestCallersLeaveAtOnce(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	b, limit := open(t, dial(t, proxy.Addr, 0)), burstOf(t, "b", 1000, 1000)
	take(t, b, chargeOf(limit, "k"))
	proxy.Hold()
	defer proxy.Pass()
	reason := errors.New("the client hung up")
	for _, c := range []struct {
		name string
		want error
		make func() (context.Context, func())
	}{
		{"cancelled", context.Canceled, func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			return ctx, sync.OnceFunc(cancel)
		}},
		{"cancelled with a cause", reason, func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(context.Background())
			return ctx, func() { cancel(reason) }
		}},
		{"late", context.DeadlineExceeded, func() (context.Context, func()) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			return ctx, func() { <-ctx.Done(); cancel() }
		}},
	} {
		for _, adjust := range []bool{false, true} {
			ctx, end := c.make()
			left := make(chan error, 1)
			go func() {
				if adjust {
					left <- b.Adjust(ctx, []ratelimit.Delta{{Limit: limit, Key: []byte("k"), Cost: 1, Units: 1}})
					return
				}
				left <- b.Take(ctx, []ratelimit.Charge{chargeOf(limit, "k")}, make([]ratelimit.Verdict, 1))
			}()
			time.Sleep(20 * time.Millisecond) // so that it waits, most likely
			end()
			start := time.Now()
			err := <-left
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s: it took %v to leave", c.name, took)
			}
			if !errors.Is(err, c.want) || errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("%s: Take or Adjust returns %v, want %v", c.name, err, c.want)
			}
		}
	}
}

// A gate is a hook of a client that holds scripts of opaque callers until it is
// opened.
type gate struct {
	entered atomic.Int64
	open    chan struct{}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		isOpaque := func(arg any) bool {
			key, ok := arg.(*string)
			return ok && strings.Contains(*key, "{!")
		}
		if slices.ContainsFunc(cmd.Args(), isOpaque) {
			g.entered.Add(1)
			<-g.open
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Who leaves before the request was sent is not charged; who leaves later may be.
func TestCallersThatLeaveTheQueueAreNotCharged(t *testing.T) {
	client, g := dialServer(t, redistest.Shared(t)), &gate{open: make(chan struct{})}
	client.AddHook(g)
	b, limit := open(t, client), burstOf(t, "b", 1, 1000)
	ctx, leave := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	call := func(key string) {
		callers.Go(func() {
			_ = b.Take(ctx, []ratelimit.Charge{chargeOf(limit, key)}, make([]ratelimit.Verdict, 1))
		})
	}
	for n := range int64(2) { // batches that may be under way
		call("sent")
		redistest.Eventually(t, 10*time.Second, "a batch under way", func() bool { return g.entered.Load() == n+1 })
	}
	for range 50 {
		call("waiting")
	}
	time.Sleep(20 * time.Millisecond) // so that most wait
	leave()
	callers.Wait()
	close(g.open)
	if n := left(t, b, limit, "waiting"); n != 1000 {
		t.Errorf("%d of the calls that left the queue were charged, want none", 1000-n)
	}
	redistest.Eventually(t, 10*time.Second, "the calls that were sent to be charged", func() bool { return left(t, b, limit, "sent") < 1000 })
}

func TestCallersLeaveAClusterThatIsNotKnown(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	proxy.Swallow()
	b, limit := open(t, dialCluster(t, []string{proxy.Addr})), burstOf(t, "b", 1000, 1000)
	reason := errors.New("the client hung up")
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error {
			return b.Take(ctx, []ratelimit.Charge{chargeOf(limit, "k")}, make([]ratelimit.Verdict, 1))
		},
		func(ctx context.Context) error {
			return b.Adjust(ctx, []ratelimit.Delta{{Limit: limit, Key: []byte("k"), Cost: 1, Units: 1}})
		},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		timer := time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
		start := time.Now()
		if err := call(ctx); !errors.Is(err, reason) || errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("Take or Adjust returns %v, want %v", err, reason)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v to leave", took)
		}
		timer.Stop()
	}
}
