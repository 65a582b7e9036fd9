package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
)

// longestDecision is what a decision may take under the fleet's budgets, less
// what the machine did not let the process run.
const longestDecision = 100 * time.Millisecond

// A runner makes the calls of a workload.
type runner struct {
	t      *testing.T
	w      workload
	b      *goredis.Backend
	limit  *ratelimit.Limit
	stalls *stallMeter

	mu      sync.Mutex
	result  outcome
	decided time.Time // when something was decided last
}

func newRunner(t *testing.T, w workload, client redis.UniversalClient) *runner {
	t.Helper()
	return &runner{
		t: t, w: w,
		b:       open(t, client, goredis.WithBudget(w.Budget)),
		limit:   burstOf(t, "shared", w.Rate, w.Burst),
		stalls:  startStallMeter(),
		decided: time.Now(),
		result:  outcome{Away: map[string]int{}},
	}
}

// calls calls until stop is closed.
func (r *runner) calls(goroutine int, stop chan struct{}) {
	charges := []ratelimit.Charge{chargeOf(r.limit, "k")}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		if r.w.Mark {
			mark := limitOf(r.t, fmt.Sprintf("mark-%d-%d-%d", r.w.Process, goroutine, n), ratelimit.SlidingLog, 10, 24*time.Hour)
			charges = append(charges[:1], chargeOf(mark, "k"))
		}
		verdicts := make([]ratelimit.Verdict, len(charges))
		start := time.Now()
		err := r.b.Take(context.Background(), charges, verdicts)
		end := time.Now()
		r.note(start, end, &verdicts[0], err)
		pause := r.w.Pause
		if pause == 0 {
			pause = verdicts[0].RetryAfter
		}
		if pause > 0 {
			time.Sleep(min(pause, time.Second))
		}
	}
}

// note adds what a call came to.
func (r *runner) note(start, end time.Time, v *ratelimit.Verdict, err error) {
	took := end.Sub(start)
	if took > longestDecision/2 {
		took -= r.stalls.between(start, end)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Calls++
	if r.result.Worst = max(r.result.Worst, took); took > longestDecision {
		r.result.Late++
	}
	if err != nil {
		if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
			r.fault("a call is answered by %v, want an outage", err)
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), ratelimit.ErrUnavailable.Error()+": redis: "), "127.0.0.1")
		r.result.Away[text]++
		return
	}
	r.result.Gap = max(r.result.Gap, end.Sub(r.decided))
	r.decided = end
	if !v.Allowed {
		r.result.Refused++
		return
	}
	r.result.Granted = append(r.result.Granted, v.Receipt.At)
}

// fault notes what must not be; r.mu must be held.
func (r *runner) fault(format string, args ...any) {
	if len(r.result.Faults) < 10 {
		r.result.Faults = append(r.result.Faults, fmt.Sprintf(format, args...))
	}
}

func (r *runner) finish() outcome {
	r.stalls.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Idle = time.Since(r.decided)
	return r.result
}

// A stallMeter finds the times at which the machine did not let the process run,
// by sleeping shortly, over and over, and looking how long it took.
type stallMeter struct {
	mu     sync.Mutex
	stalls []stall
	stop   chan struct{}
	meters sync.WaitGroup
}

type stall struct{ from, to time.Time }

const (
	meterSleep = 2 * time.Millisecond
	aStall     = 5 * time.Millisecond
)

func startStallMeter() *stallMeter {
	m := &stallMeter{stop: make(chan struct{})}
	for range runtime.GOMAXPROCS(0) {
		m.meters.Go(m.measure)
	}
	return m
}

func (m *stallMeter) measure() {
	for {
		select {
		case <-m.stop:
			return
		default:
		}
		start := time.Now()
		time.Sleep(meterSleep)
		if end := time.Now(); end.Sub(start) > aStall {
			m.mu.Lock()
			m.stalls = append(m.stalls, stall{start.Add(meterSleep), end})
			m.mu.Unlock()
		}
	}
}

// between returns how long the process stood still in a time, by the meter that
// was hindered most.
func (m *stallMeter) between(from, to time.Time) time.Duration {
	// A stall is known when it is over, which may be just after it hit a caller.
	time.Sleep(meterSleep)
	m.mu.Lock()
	defer m.mu.Unlock()
	var total, until time.Duration
	for _, s := range m.stalls {
		begin, end := max(s.from.Sub(from), until), min(s.to.Sub(from), to.Sub(from))
		if end > begin {
			total += end - begin
			until = end
		}
	}
	return total
}

func (m *stallMeter) end() {
	close(m.stop)
	m.meters.Wait()
}
