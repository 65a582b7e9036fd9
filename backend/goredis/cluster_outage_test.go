package goredis_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// homes returns keys, so many for each master, in the order of the masters.
func homes(c *redistest.Cluster, each int) [][]string {
	byAddr := masterKeys(c, each)
	var keys [][]string
	for _, s := range c.Masters() {
		keys = append(keys, byAddr[s.Addr])
	}
	return keys
}

// left returns what a key has left.
func left(t *testing.T, b ratelimit.Backend, l *ratelimit.Limit, key string) int64 {
	t.Helper()
	return mustTake(t, b, ratelimit.Charge{Limit: l, Key: []byte(key)})[0].Remaining
}

func TestSilentMasterHoldsUpNobodyElse(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0), redistest.Config("cluster-node-timeout 60000"))
	b := open(t, dialCluster(t, c.Addrs()), goredis.WithBudget(outageBudget))
	limit, keys, master := burstOf(t, "b", 1e6, 1e6), homes(c, 8), c.Masters()[0]
	for _, of := range keys {
		awaitDecision(t, b, chargeOf(limit, of[0]))
	}
	healthy := p99(t, b, limit, slices.Concat(keys[1:]...))
	master.Pause()
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 16 {
		others.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				err := b.Take(ctx, []ratelimit.Charge{chargeOf(limit, keys[0][0])}, make([]ratelimit.Verdict, 1))
				if ctx.Err() == nil && !errors.Is(err, ratelimit.ErrUnavailable) {
					t.Errorf("a call to a silent master is answered by %v after %v", err, time.Since(start))
				}
			}
		})
	}
	silent := p99(t, b, limit, slices.Concat(keys[1:]...))
	stop()
	others.Wait()
	master.Resume()
	t.Logf("p99 of calls to the other masters is %v, and was %v before", silent, healthy)
	if silent > max(10*healthy, outageBudget/2) {
		t.Errorf("p99 of calls to the other masters is %v, and was %v before one went silent", silent, healthy)
	}
	took := awaitDecision(t, b, chargeOf(limit, keys[0][0]))
	t.Logf("decided %v after the master spoke again", took)
}

// p99 makes calls, some at once, and returns the 99th percentile of how long
// they take. All must be decided, but for one in a hundred, as machines go.
func p99(t *testing.T, b ratelimit.Backend, l *ratelimit.Limit, keys []string) time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	failed := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				start := time.Now()
				err := b.Take(t.Context(), []ratelimit.Charge{chargeOf(l, keys[i%len(keys)])}, make([]ratelimit.Verdict, 1))
				took := time.Since(start)
				mu.Lock()
				all = append(all, took)
				if err != nil {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed > len(all)/100 {
		t.Errorf("%d of %d calls are not decided", failed, len(all))
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

func TestRefusedCallOfSeveralSlotsHoldsNothing(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	b := open(t, dialCluster(t, c.Addrs()))
	keys := homes(c, 2)
	for _, a := range algorithms {
		// At once only where giving back is exact: from a bucket it takes what has
		// drained since the charge as being the charge's own.
		window, atOnce := 366*24*time.Hour, 16
		if a.HasBurst() {
			window, atOnce = time.Hour, 1
		}
		wide, narrow := limitOf(t, "wide", a, 1000, window), limitOf(t, "narrow", a, 1, window)
		charges := []ratelimit.Charge{chargeOf(narrow, keys[0][0])}
		take(t, b, charges...)
		for _, of := range keys {
			charges = append(charges, chargeOf(wide, of[0]), chargeOf(wide, of[1]))
		}
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				for range 5 {
					refused(t, b, charges)
				}
			})
		}
		wg.Wait()
		for _, of := range keys {
			for _, key := range of {
				if got := left(t, b, wide, key); got != 1000 {
					t.Errorf("%v: %s has %d left after refusals, want 1000", a, key, got)
				}
			}
		}
	}
}

// refused makes a call whose first charge is refused.
func refused(t *testing.T, b ratelimit.Backend, charges []ratelimit.Charge) {
	t.Helper()
	verdicts := make([]ratelimit.Verdict, len(charges))
	if err := b.Take(context.Background(), charges, verdicts); err != nil || verdicts[0].Allowed {
		t.Errorf("answered %+v, %v, want a refusal", verdicts[0], err)
	}
	for i, v := range verdicts {
		if v.Receipt != (ratelimit.Receipt{}) {
			t.Errorf("charge %d of a refused call has the receipt %+v", i, v.Receipt)
		}
	}
}

func TestCallThatMissesAMasterHoldsNothing(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0), redistest.Config("cluster-node-timeout 60000"))
	b := open(t, dialCluster(t, c.Addrs()), goredis.WithBudget(outageBudget))
	limit, keys := limitOf(t, "b", ratelimit.FixedWindow, 1000, 366*24*time.Hour), homes(c, 1)
	master := c.Masters()[0]
	var charges []ratelimit.Charge
	for _, of := range keys {
		awaitDecision(t, b, chargeOf(limit, of[0]))
		charges = append(charges, chargeOf(limit, of[0]))
	}
	before := left(t, b, limit, keys[1][0])
	master.Pause()
	start := time.Now()
	err := b.Take(t.Context(), charges, make([]ratelimit.Verdict, len(charges)))
	if took := time.Since(start); !errors.Is(err, ratelimit.ErrUnavailable) || took > time.Second {
		t.Errorf("a call that needs a silent master is answered by %v after %v", err, took)
	}
	redistest.Eventually(t, 5*time.Second, "what the other masters charged to be given back", func() bool {
		return left(t, b, limit, keys[1][0]) == before
	})
	master.Resume()
}

// A muffler makes a client silent on some addresses.
type muffler struct {
	mu       sync.Mutex
	commands map[string]int // that come through before it is silent, by address
	over     chan struct{}
}

func (m *muffler) hook(addr string) redis.Hook { return muffled{m, addr} }

type muffled struct {
	m    *muffler
	addr string
}

func (h muffled) wait(ctx context.Context) error {
	h.m.mu.Lock()
	n, on := h.m.commands[h.addr]
	if on {
		h.m.commands[h.addr] = n - 1
	}
	h.m.mu.Unlock()
	if !on || n > 0 {
		return nil
	}
	select {
	case <-h.m.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h muffled) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h muffled) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.wait(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (h muffled) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.wait(ctx); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// The budget of a call that misses one master ends also where another, which
// granted, goes silent before it takes the charge back.
func TestCancelKeepsTheBudget(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	client, m := dialCluster(t, c.Addrs()), &muffler{commands: map[string]int{}, over: make(chan struct{})}
	nodes, ok := client.(*redis.ClusterClient)
	if !ok {
		t.Fatalf("the client of a cluster is a %T", client)
	}
	nodes.OnNewNode(func(node *redis.Client) { node.AddHook(m.hook(node.Options().Addr)) })
	const budget = time.Second
	b := open(t, client, goredis.WithBudget(budget))
	limit, keys, masters := burstOf(t, "b", 1, 1000), homes(c, 1), c.Masters()
	for _, of := range keys {
		take(t, b, chargeOf(limit, of[0]))
	}
	m.mu.Lock()
	m.commands = map[string]int{masters[0].Addr: 0, masters[1].Addr: 1}
	m.mu.Unlock()
	start := time.Now()
	err := b.Take(t.Context(), []ratelimit.Charge{chargeOf(limit, keys[0][0]), chargeOf(limit, keys[1][0])}, make([]ratelimit.Verdict, 2))
	if took := time.Since(start); !errors.Is(err, ratelimit.ErrUnavailable) || took > budget+budget/2 {
		t.Errorf("Take returns %v after %v, want an outage after the budget of %v", err, took, budget)
	}
	close(m.over)
}
