package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Main(m,
		// A client whose server was down sleeps a second before it sees that it is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

var (
	// errDown is that of a server that accepts no connection, and errLost of one
	// that may have got the call.
	errDown = fmt.Errorf("%w: %w", ratelimit.ErrUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	errLost = fmt.Errorf("%w: connection lost", ratelimit.ErrUnavailable)
)

// A primary is a memory backend that can be broken, and counts what reaches it.
type primary struct {
	ratelimit.Backend
	mu       sync.Mutex
	broken   func(ctx context.Context, charges []ratelimit.Charge) error
	asked    int
	adjusted []ratelimit.Delta
	fleet    int

	noAdjust, hangAdjust bool // Adjust fails, or ends with its context
	adjusting            func(context.Context)
	atOnce               int // the most deltas of one Adjust
}

func newPrimary(t testing.TB) *primary {
	t.Helper()
	return &primary{Backend: newMemory(t), fleet: 1}
}

func newMemory(t testing.TB) *memory.Backend {
	t.Helper()
	b, err := memory.New()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p *primary) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	p.mu.Lock()
	p.asked++
	broken := p.broken
	p.mu.Unlock()
	if broken != nil {
		if err := broken(ctx, charges); err != nil {
			return err
		}
	}
	return p.Backend.Take(ctx, charges, verdicts)
}

func (p *primary) Adjust(ctx context.Context, deltas []ratelimit.Delta) error {
	p.mu.Lock()
	p.adjusted, p.atOnce = append(p.adjusted, deltas...), max(p.atOnce, len(deltas))
	p.mu.Unlock()
	if p.adjusting != nil {
		p.adjusting(ctx)
	}
	switch {
	case p.noAdjust:
		return errLost
	case p.hangAdjust:
		<-ctx.Done()
		return errLost
	}
	return p.Backend.Adjust(ctx, deltas)
}

func (p *primary) Budget() time.Duration { return time.Millisecond }

func (p *primary) Instances() int { return p.fleet }

// breakWith makes calls fail; nil repairs them.
func (p *primary) breakWith(err error) {
	p.breakBy(func(context.Context, []ratelimit.Charge) error { return err })
}

func (p *primary) breakBy(f func(context.Context, []ratelimit.Charge) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = f
}

// reached returns how many calls have reached it since the last time.
func (p *primary) reached() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.asked
	p.asked = 0
	return n
}

func newBreaker(t testing.TB, p ratelimit.Backend, opts ...breaker.Option) *breaker.Backend {
	t.Helper()
	b, err := breaker.New(p, newMemory(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func limitOf(t testing.TB, bucket string, rule ratelimit.Rule) *ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.NewLimit(bucket, rule)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func perHour(t testing.TB, bucket string, n int64, on ratelimit.OnUnavailable) *ratelimit.Limit {
	t.Helper()
	return limitOf(t, bucket, ratelimit.Rule{Rate: ratelimit.Rate{Count: n, Window: time.Hour}, OnUnavailable: on})
}

// take makes one call of cost 1 under each limit.
func take(b ratelimit.Backend, limits ...*ratelimit.Limit) ([]ratelimit.Verdict, error) {
	return takeCtx(context.Background(), b, 1, limits...)
}

func takeCtx(ctx context.Context, b ratelimit.Backend, cost int64, limits ...*ratelimit.Limit) ([]ratelimit.Verdict, error) {
	charges := make([]ratelimit.Charge, len(limits))
	for i, l := range limits {
		charges[i] = ratelimit.Charge{Limit: l, Key: []byte("alice"), Cost: cost}
	}
	verdicts := make([]ratelimit.Verdict, len(limits))
	err := b.Take(ctx, charges, verdicts)
	return verdicts, err
}

// granted returns how many of n calls are granted.
func granted(t testing.TB, b ratelimit.Backend, n int, limits ...*ratelimit.Limit) int {
	t.Helper()
	total := 0
	for range n {
		verdicts, err := take(b, limits...)
		if err != nil {
			t.Fatal(err)
		}
		ok := 1
		for _, v := range verdicts {
			if !v.Allowed {
				ok = 0
			}
		}
		total += ok
	}
	return total
}

var errCaller = errors.New("caller left")
