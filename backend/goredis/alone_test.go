package goredis

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// A watcher is a hook that looks at each script before it is sent.
type watcher struct {
	sends  atomic.Int64 // scripts that decide
	inline atomic.Int64 // of them those sent from the goroutine of their caller
	before atomic.Pointer[func()]
	after  atomic.Pointer[func()]
}

func (*watcher) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*watcher) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *watcher) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name != "evalsha" && name != "eval" || cmd.Args()[2] != 1 {
			return next(ctx, cmd)
		}
		w.sends.Add(1)
		if stack := make([]byte, 64<<10); containsCaller(stack[:runtime.Stack(stack, false)]) {
			w.inline.Add(1)
		}
		if f := w.before.Load(); f != nil {
			(*f)()
		}
		err := next(ctx, cmd)
		if f := w.after.Load(); f != nil {
			(*f)()
		}
		return err
	}
}

func containsCaller(stack []byte) bool {
	const caller = "goredis.(*Backend).Take("
	for i := range len(stack) - len(caller) {
		if string(stack[i:i+len(caller)]) == caller {
			return true
		}
	}
	return false
}

// alonely returns a backend whose calls go out alone, once it has met its server,
// under a budget, and the hook of its client.
func alonely(t *testing.T, s *redistest.Server, budget time.Duration) (*Backend, *watcher) {
	t.Helper()
	client, err := NewClient(s.URL() + "?read_timeout=60s&write_timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	client.AddHook(w)
	// Under a test's clock nothing else is sent.
	b, err := New(client, WithBudget(budget), WithClock(time.Now), WithLogger((&logbook{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	server := b.topology.(*single).server
	server.alone.longest = time.Minute
	l := limit(t, "first", 10, time.Hour)
	redistest.Eventually(t, 20*time.Second, "an answer", func() bool {
		return b.Take(t.Context(), charge(l, "nobody", 0), make([]ratelimit.Verdict, 1)) == nil
	})
	atRest(t, b)
	w.sends.Store(0)
	w.inline.Store(0)
	return b, w
}

// atRest waits until nothing is under way: a flight ends a moment after its answers.
func atRest(t *testing.T, b *Backend) {
	t.Helper()
	redistest.Eventually(t, 10*time.Second, "nothing under way", b.topology.(*single).idle)
}

func usedOf(t *testing.T, b *Backend, l *ratelimit.Limit, caller string) int64 {
	t.Helper()
	atRest(t, b)
	verdicts := make([]ratelimit.Verdict, 1)
	if err := b.Take(context.Background(), charge(l, caller, 0), verdicts); err != nil {
		t.Fatal(err)
	}
	return l.Most() - verdicts[0].Remaining
}

func TestCallsAloneGoOutFromTheirCallers(t *testing.T) {
	s := redistest.Start(t)
	b, w := alonely(t, s, 10*time.Second)
	l := limit(t, "b", 100, 366*24*time.Hour)
	for range 5 {
		atRest(t, b)
		if err := b.Take(t.Context(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if w.sends.Load() != 5 || w.inline.Load() != 5 {
		t.Errorf("%d of %d calls went out from their callers, want 5 of 5", w.inline.Load(), w.sends.Load())
	}
	// What comes while one is under way goes out by itself, and what comes then waits
	// for a flight of its own.
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	wait := func() { held <- struct{}{}; <-hold }
	w.before.Store(&wait)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if err := b.Take(context.Background(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	<-held
	<-held
	close(hold)
	callers.Wait()
	w.before.Store(nil)
	if n := usedOf(t, b, l, "alice"); n != 13 || w.inline.Load() > 7 {
		t.Errorf("%d are used, %d went out from their callers; want 13, and 7 or fewer", n, w.inline.Load())
	}
	server := b.topology.(*single).server
	server.alone.longest = time.Second
	w.inline.Store(0)
	usedOf(t, b, l, "alice")
	if w.inline.Load() != 0 {
		t.Error("under a long budget a call went out from its caller, want none")
	}
}

// A caller that is not answered leaves when its time is over, whoever set it; that
// costs a connection, and no call goes out alone for a while.
func TestCallsAloneLeaveInTime(t *testing.T) {
	for name, c := range map[string]struct {
		budget, deadline time.Duration
		want             error
	}{
		"its budget's":   {30 * time.Millisecond, 0, ratelimit.ErrUnavailable},
		"its deadline's": {10 * time.Second, 30 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			b, w := alonely(t, s, c.budget)
			want := int64(1)
			if c.deadline > 0 { // which would cost a connection though Redis is well
				want = 0
			}
			l := limit(t, "b", 100, 366*24*time.Hour)
			redistest.Eventually(t, 10*time.Second, "a call alone", func() bool {
				_ = b.Take(t.Context(), charge(l, "alice", 0), make([]ratelimit.Verdict, 1))
				return w.inline.Load() > 0
			})
			atRest(t, b)
			w.inline.Store(0)
			s.Pause()
			defer s.Resume()
			take := func() error {
				ctx := context.Background()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				return b.Take(ctx, charge(l, "alice", 1), make([]ratelimit.Verdict, 1))
			}
			for range 5 {
				start := time.Now()
				err := take()
				if took := time.Since(start); !errors.Is(err, c.want) || errors.Is(err, ratelimit.ErrBackendBug) || took > 5*time.Second {
					t.Errorf("at a silent server: %v after %v, want %v after 30ms", err, took, c.want)
				}
			}
			if n := w.inline.Load(); n != want {
				t.Errorf("%d calls went out alone to a silent server, want %d", n, want)
			}
		})
	}
}

// A caller that is cancelled is told so, and not that Redis is away.
func TestCallsAloneThatAreCancelled(t *testing.T) {
	s := redistest.Start(t)
	b, w := alonely(t, s, 50*time.Millisecond)
	l := limit(t, "b", 100, 366*24*time.Hour)
	cause := errors.New("the client has hung up")
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := func() {
		s.Pause()
		cancel(cause)
	}
	redistest.Eventually(t, 10*time.Second, "a call alone", func() bool {
		_ = b.Take(t.Context(), charge(l, "alice", 0), make([]ratelimit.Verdict, 1))
		return w.inline.Load() > 0
	})
	defer s.Resume()
	atRest(t, b)
	w.before.Store(&stop)
	if err := b.Take(ctx, charge(l, "alice", 1), make([]ratelimit.Verdict, 1)); !errors.Is(err, cause) || errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("cancelled: %v, want %v", err, cause)
	}
	w.before.Store(nil)
}

// A script that the server lacks did not run; a hook that panics after it may have.
func TestCallsAloneChargeOnce(t *testing.T) {
	s := redistest.Start(t)
	b, w := alonely(t, s, 10*time.Second)
	l := limit(t, "b", 100, 366*24*time.Hour)
	s.Do("SCRIPT", "FLUSH")
	if err := b.Take(t.Context(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)); err != nil {
		t.Error(err)
	}
	if n := usedOf(t, b, l, "alice"); n != 1 {
		t.Errorf("after SCRIPT FLUSH %d are used, want 1", n)
	}
	atRest(t, b)
	fail := func() { panic("hook") }
	w.after.Store(&fail)
	err := b.Take(t.Context(), charge(l, "bob", 1), make([]ratelimit.Verdict, 1))
	w.after.Store(nil)
	if n := usedOf(t, b, l, "bob"); !errors.Is(err, ratelimit.ErrBackendBug) || n != 1 {
		t.Errorf("with a hook that panics: %v, and %d are used; want a bug, and 1", err, n)
	}
}

// A hook that a client gets later is used too.
func TestCallsAloneSeeLaterHooks(t *testing.T) {
	s := redistest.Start(t)
	b, w := alonely(t, s, 10*time.Second)
	l := limit(t, "b", 100, time.Hour)
	later := &watcher{}
	b.topology.(*single).client.(*redis.Client).AddHook(later)
	usedOf(t, b, l, "alice")
	if w.inline.Load() != 1 || later.inline.Load() != 1 {
		t.Errorf("the first hook saw %d calls, the later one %d, want 1 each", w.inline.Load(), later.inline.Load())
	}
}

// A stall that is longer than many budgets, and shorter than the socket's timeout,
// costs the connection of at most one call.
func TestStallKeepsConnections(t *testing.T) {
	s := redistest.Start(t)
	client, err := NewClient(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, WithBudget(10*time.Millisecond), WithClock(time.Now), WithLogger((&logbook{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	l := limit(t, "b", 1_000_000, time.Hour)
	var stop atomic.Bool
	var answered atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for !stop.Load() {
				if b.Take(context.Background(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)) == nil {
					answered.Add(1)
				}
			}
		})
	}
	more := func() {
		before := answered.Load()
		redistest.Eventually(t, 10*time.Second, "answers", func() bool { return answered.Load() > before+100 })
	}
	more()
	opened := s.Info("stats", "total_connections_received")
	s.Pause()
	time.Sleep(300 * time.Millisecond) // the stall
	s.Resume()
	more()
	stop.Store(true)
	callers.Wait()
	before, _ := strconv.Atoi(opened)
	after, _ := strconv.Atoi(s.Info("stats", "total_connections_received"))
	if before == 0 || after > before+2 { // one to replace that of the call, one of the pool's own
		t.Errorf("%d connections were opened, want 2 or fewer", after-before)
	}
}

// Through a client whose reads do not end with their context nobody waits on the
// socket.
func TestNoCallsAloneWithoutContextTimeouts(t *testing.T) {
	s := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	b, err := New(client, WithBudget(20*time.Millisecond), WithClock(time.Now), WithLogger((&logbook{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	l := limit(t, "b", 100, time.Hour)
	redistest.Eventually(t, 10*time.Second, "an answer", func() bool {
		return b.Take(t.Context(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)) == nil
	})
	s.Pause()
	defer s.Resume()
	start := time.Now()
	err = b.Take(t.Context(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1))
	if took := time.Since(start); !errors.Is(err, ratelimit.ErrUnavailable) || took > 10*time.Second {
		t.Errorf("at a silent server: %v after %v, want an outage after 20ms", err, took)
	}
}

// Nor does one where a connection is made by what need not end with its context.
func TestNoCallsAloneWithOwnCredentials(t *testing.T) {
	s := redistest.Start(t)
	var slow atomic.Bool
	credentials := func(context.Context) (user, password string, err error) {
		if slow.Load() {
			time.Sleep(2 * time.Second)
		}
		return "", "", nil
	}
	b, err := Open(s.URL(), WithCredentials(credentials), WithClock(time.Now), WithLogger((&logbook{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := limit(t, "b", 100, time.Hour)
	redistest.Eventually(t, 10*time.Second, "an answer", func() bool {
		return b.Take(t.Context(), charge(l, "alice", 0), make([]ratelimit.Verdict, 1)) == nil
	})
	slow.Store(true)
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 3 {
		start := time.Now()
		_ = b.Take(t.Context(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)) // the time is what counts
		if took := time.Since(start); took > time.Second {
			t.Errorf("a call took %v, want about its budget of 10ms", took)
		}
	}
	slow.Store(false)
}
