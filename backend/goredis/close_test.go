package goredis

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// noneLeft fails the test if goroutines of the package are left. What has only to
// return may take a moment.
func noneLeft(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Second); len(ours()) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Errorf("goroutines are left after Close, want none:\n%s", strings.Join(ours(), "\n\n"))
			return
		}
	}
}

// ours returns the stacks of goroutines of this package that no test runs.
func ours() (found []string) {
	buffer := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "backend/goredis.") && !strings.Contains(stack, "_test.go") && !strings.Contains(stack, "testing.tRunner") {
			found = append(found, stack)
		}
	}
	return found
}

// unhurried returns a backend whose client waits for a silent server longer than
// any test does.
func unhurried(t *testing.T, url string, opts ...Option) *Backend {
	t.Helper()
	client, err := NewClient(url + "?read_timeout=60s&write_timeout=60s&dial_timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, append(opts, WithBudget(50*time.Second), WithLogger((&logbook{}).logger()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// What waits at a silent server when a backend is closed fails at once, but for
// what is to be given back, which is; and Close returns when nothing is under way.
func TestCloseWhileTheServerIsSilent(t *testing.T) {
	s := redistest.Start(t)
	b := unhurried(t, s.URL())
	l := limit(t, "b", 100, 366*24*time.Hour)
	key := Key(Text("alice"))
	took(t, b, l, key)
	receipt := took(t, b, l, key).Receipt
	redistest.Eventually(t, 10*time.Second, "the server to be met", func() bool { return b.fleet.known.Load() == 1 })
	s.Pause()
	server := b.topology.(*single).server

	takes, others := make(chan error, 5), make(chan error, 3)
	for range cap(takes) {
		go func() {
			takes <- b.Take(context.Background(), []ratelimit.Charge{{Limit: l, Key: key, Cost: 1}}, make([]ratelimit.Verdict, 1))
		}()
	}
	redistest.Eventually(t, 10*time.Second, "a decision under way", func() bool { return !server.idle() })
	back := []ratelimit.Delta{{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: receipt}}
	adjust := func() { others <- b.Adjust(context.Background(), back) }
	go adjust()
	redistest.Eventually(t, 10*time.Second, "an adjustment under way", func() bool { return server.changes.state() == "flying" })
	back2 := []ratelimit.Delta{{Limit: l, Key: Key(Text("bob")), Cost: 5, Units: 5}}
	go func() { others <- b.Adjust(context.Background(), back2) }()
	redistest.Eventually(t, 10*time.Second, "an adjustment that waits", func() bool { return server.changes.state() == "flying, one waits" })
	go func() {
		_, err := b.Reset(context.Background(), Key(Text("carol")), l)
		others <- err
	}()

	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	for range cap(others) {
		if err := within(t, others); !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
			t.Errorf("an adjustment or a reset when the backend is closed: got %v, want an outage", err)
		}
	}
	staysOpen(t, closed)
	s.Resume()
	if err := within(t, closed); err != nil {
		t.Errorf("Close: %v", err)
	}
	// Those under way are answered, those that wait are not sent.
	for range cap(takes) {
		err := within(t, takes)
		if err != nil && (!errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug)) {
			t.Errorf("a call when the backend is closed: got %v, want an answer or an outage", err)
		}
	}
	noneLeft(t)
	if n := s.Do("EXISTS", keyOf(l, Key(Text("bob")))); n != int64(1) {
		t.Error("an adjustment that waited was not sent, want it sent")
	}
}

// Close waits for a decision that is under way, and for an adjustment, though
// nothing else is.
func TestCloseWaitsForEach(t *testing.T) {
	l := limit(t, "b", 100, time.Hour)
	for name, call := range map[string]func(*Backend) error{
		"decision": func(b *Backend) error {
			return b.Take(context.Background(), []ratelimit.Charge{{Limit: l, Cost: 1}}, make([]ratelimit.Verdict, 1))
		},
		"adjustment": func(b *Backend) error {
			return b.Adjust(context.Background(), []ratelimit.Delta{{Limit: l, Cost: 1, Units: 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			b := unhurried(t, s.URL(), WithClock(time.Now)) // under which no heartbeat is sent
			took(t, b, l, nil)
			s.Pause()
			called := make(chan error, 1)
			go func() { called <- call(b) }()
			server := b.topology.(*single).server
			redistest.Eventually(t, 10*time.Second, "something under way", func() bool {
				return !server.idle() || server.changes.state() != "idle"
			})
			closed := make(chan error, 1)
			go func() { closed <- b.Close() }()
			staysOpen(t, closed)
			s.Resume()
			if err := within(t, closed); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := within(t, called); err != nil && !errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("a call under way: got %v, want an answer or an outage", err)
			}
			noneLeft(t)
		})
	}
}

// within returns what comes from a channel, which has to be soon.
func within(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("nothing returns within 10 s")
		return nil
	}
}

// staysOpen fails the test if Close returns.
func staysOpen(t *testing.T, closed chan error) {
	t.Helper()
	select {
	case err := <-closed:
		t.Errorf("Close returns %v while a batch is under way, want it to wait", err)
		closed <- err
	case <-time.After(50 * time.Millisecond):
	}
}

// state says what a queue does.
func (q *queue[T]) state() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.flying:
		return "idle"
	case len(q.waiting) == 0:
		return "flying"
	case len(q.waiting) == 1:
		return "flying, one waits"
	}
	return "flying, several wait"
}

// After Close nothing is sent, and nobody waits.
func TestAfterClose(t *testing.T) {
	for name, url := range map[string]string{
		"a server":  redistest.Shared(t).URL(),
		"a cluster": redistest.StartCluster(t, redistest.Replicas(0)).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, used := range []bool{false, true} {
				b, l := opened(t, url), limit(t, "b", 10, time.Minute)
				if used {
					took(t, b, l, nil)
				}
				if err := b.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				noneLeft(t)
				_, reset := b.Reset(t.Context(), nil, l)
				for what, err := range map[string]error{
					"Take":   b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Cost: 1}}, make([]ratelimit.Verdict, 1)),
					"Adjust": b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Cost: 1, Units: 1}}),
					"Reset":  reset,
				} {
					if !errors.Is(err, errClosed) || !errors.Is(err, ratelimit.ErrUnavailable) {
						t.Errorf("%s after Close: got %v, want an outage: %v", what, err, errClosed)
					}
				}
				if topology, ok := b.topology.(*cluster); ok {
					if _, _, err := topology.route(t.Context(), "key"); err == nil && !used {
						t.Error("slots are looked up after Close, want an error")
					}
				}
				if err := b.Close(); err != nil {
					t.Errorf("Close again: %v", err)
				}
			}
		})
	}
}
