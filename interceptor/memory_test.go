package interceptor_test

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/interceptor"
)

// A clock stands until it is told to go on.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// The whole way: real calls, the backend in the process, the delay obeyed.
func TestMemoryBackend(t *testing.T) {
	now := &clock{now: time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)}
	backend, err := memory.New(memory.WithClock(now.Now))
	if err != nil {
		t.Fatal(err)
	}
	perMinute := rule("burst", 6, part(ratelimit.SourceIP))
	perMinute.Burst = 2
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{perMinute}, allMethods...), backend), nil)
	for _, method := range allMethods {
		for i, tt := range []struct {
			after   time.Duration
			refused bool
			wait    time.Duration
		}{
			{0, false, 0},
			{0, false, 0},
			{0, true, 10 * time.Second},
			{9999 * time.Millisecond, true, time.Millisecond},
			{time.Millisecond, false, 0},
			{0, true, 10 * time.Second},
		} {
			now.advance(tt.after)
			err := call(t.Context(), conn, method, "x")
			wait, _ := interceptor.RetryAfter(err)
			if interceptor.IsRefused(err) != tt.refused || !tt.refused && err != nil || wait != tt.wait {
				t.Errorf("%s, call %d: %v, wait %v, want refused %v, wait %v", method, i, err, wait, tt.refused, tt.wait)
			}
		}
	}
}

// Callers at the same time get exactly the burst.
func TestConcurrentCallsGetTheBurst(t *testing.T) {
	const burst, callers, each = 50, 8, 25
	now := &clock{now: time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)}
	backend, err := memory.New(memory.WithClock(now.Now))
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", burst)}, unary), backend)
	target := "passthrough:///" + listen(t, grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l))), nil)
	var group sync.WaitGroup
	served := make(chan struct{}, callers*each)
	for range callers {
		conn := dial(t, target)
		group.Go(func() {
			for range each {
				switch err := call(t.Context(), conn, unary, "x"); {
				case err == nil:
					served <- struct{}{}
				case !interceptor.IsRefused(err):
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := len(served); n != burst {
		t.Errorf("%d of %d calls served, want %d", n, callers*each, burst)
	}
}
