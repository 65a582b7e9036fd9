package breaker_test

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

const (
	// faultBudget is what a decision may take, and longestDecision what it may in
	// a test, stalls of the machine taken off.
	faultBudget     = 50 * time.Millisecond
	longestDecision = 2 * faultBudget
	// openTime is how long breakers of these tests stay open, and longestOpen with
	// the time added by chance.
	openTime    = 200 * time.Millisecond
	longestOpen = openTime + openTime/4
	// poolTime is what the client may need after dials were refused.
	poolTime = time.Second
	// fleetSize is how many instances share a limit in these tests.
	fleetSize = 2
)

// openRedis returns a breaker around a Redis and a fallback of its own.
func openRedis(t testing.TB, url string, opts ...breaker.Option) *breaker.Backend {
	t.Helper()
	return openAround(t, openPrimary(t, url), newMemory(t), opts...)
}

// openAround returns a breaker that is closed with the test.
func openAround(t testing.TB, primary, local ratelimit.Backend, opts ...breaker.Option) *breaker.Backend {
	t.Helper()
	b, err := breaker.New(primary, local, append([]breaker.Option{
		breaker.WithBudget(faultBudget), breaker.WithOpen(openTime, 3), breaker.WithTrip(20, 0.5, time.Second),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// openPrimary returns a Redis without a breaker.
func openPrimary(t testing.TB, url string, opts ...goredis.Option) *goredis.Backend {
	t.Helper()
	primary, err := goredis.Open(url, append([]goredis.Option{
		goredis.WithBudget(faultBudget), goredis.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() }) // a breaker has closed it
	return primary
}

// openFleet returns breakers that share a limit.
func openFleet(t testing.TB, url string) []*breaker.Backend {
	t.Helper()
	var fleet []*breaker.Backend
	for range fleetSize {
		fleet = append(fleet, openRedis(t, url, breaker.WithInstances(fleetSize)))
	}
	return fleet
}

// A sample is a call that was made.
type sample struct {
	n       int
	start   time.Time
	took    time.Duration // less the time for which the machine stood still
	granted bool
	err     error
}

// A load makes calls of fresh goroutines at a steady pace, whatever becomes of
// those before, of one instance after another.
type load struct {
	fleet   []*breaker.Backend
	charges func(n int) []ratelimit.Charge
	meter   *stallMeter
	ended   chan struct{}
	over    sync.WaitGroup

	mu      sync.Mutex
	samples []sample
}

// pace is the time between two calls: more than 300 a second on a machine that
// is not busy.
const pace = 3 * time.Millisecond

func startLoad(fleet []*breaker.Backend, charges func(n int) []ratelimit.Charge) *load {
	l := &load{fleet: fleet, charges: charges, meter: startStallMeter(), ended: make(chan struct{})}
	l.over.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-l.ended:
				return
			case <-ticker.C:
				l.over.Go(func() { l.call(n) })
			}
		}
	})
	return l
}

func (l *load) call(n int) {
	charges := l.charges(n)
	verdicts := make([]ratelimit.Verdict, len(charges))
	s := sample{n: n, start: time.Now()}
	s.err = l.fleet[n%len(l.fleet)].Take(context.Background(), charges, verdicts)
	end := time.Now()
	s.took = end.Sub(s.start) - l.meter.between(s.start, end)
	s.granted = s.err == nil
	for _, v := range verdicts {
		s.granted = s.granted && v.Allowed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, s)
}

// stop ends the load and returns its calls.
func (l *load) stop() []sample {
	close(l.ended)
	l.over.Wait()
	l.meter.end()
	return l.samples
}

// A summary is what calls of a time came to.
type summary struct {
	calls, granted int
	worst          time.Duration
	late           int // that took longer than longestDecision
	errs           []error
}

func summarize(samples []sample, from, to time.Time) summary {
	var s summary
	for _, c := range samples {
		if c.start.Before(from) || c.start.After(to) {
			continue
		}
		s.calls++
		if c.granted {
			s.granted++
		}
		if s.worst = max(s.worst, c.took); c.took > longestDecision {
			s.late++
		}
		if c.err != nil {
			s.errs = append(s.errs, c.err)
		}
	}
	return s
}

// check fails the test if a call was not decided, or too late. A thread that the
// system holds up hinders one caller, and no meter sees it.
func (s *summary) check(t *testing.T) {
	t.Helper()
	if len(s.errs) > 0 {
		t.Errorf("%d of %d calls are not decided: %v", len(s.errs), s.calls, s.errs[0])
	}
	if s.late > s.calls/100 || s.worst > time.Second {
		t.Errorf("%d of %d decisions took more than %v, and one %v; want hardly any", s.late, s.calls, longestDecision, s.worst)
	}
}

// bound returns what a fleet may grant by itself in a time: each instance its
// share of the burst, rounded up, and all together the rate.
func bound(l *ratelimit.Limit, d time.Duration) int {
	share := (l.Most() + fleetSize - 1) / fleetSize
	rate := float64(l.Rate().Count) * float64(d) / float64(l.Window())
	return int(fleetSize*share) + int(math.Ceil(rate)) + fleetSize
}

// allAre tells whether all breakers of a fleet are in a state.
func allAre(fleet []*breaker.Backend, state gobreaker.State) bool {
	for _, b := range fleet {
		for _, s := range b.Status().Shards {
			if s.State != state {
				return false
			}
		}
	}
	return true
}

// localOf returns how many calls the fallbacks of a fleet have decided.
func localOf(fleet []*breaker.Backend) (n uint64) {
	for _, b := range fleet {
		n += b.Status().Local
	}
	return n
}

// awaitClosed returns how long it takes until all breakers are closed.
func awaitClosed(t *testing.T, fleet []*breaker.Backend) time.Duration {
	t.Helper()
	start := time.Now()
	redistest.Eventually(t, 20*time.Second, "closed breakers", func() bool { return allAre(fleet, gobreaker.StateClosed) })
	return time.Since(start)
}

// countGoroutines marks what the test's goroutine starts from now on, and returns
// what counts it: other tests may run at the same time.
func countGoroutines(t testing.TB) func() int {
	t.Helper()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("for", t.Name())))
	return func() (n int) {
		var all strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Error(err)
		}
		for record := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(record, strconv.Quote("for")+":"+strconv.Quote(t.Name())) {
				count, _, _ := strings.Cut(record, " ")
				some, _ := strconv.Atoi(count)
				n += some
			}
		}
		if n == 0 {
			t.Error("no goroutine is marked as of this test")
		}
		return n
	}
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
