package overredis

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protolimit/ratelimit/internal/redistest"
)

var errUnexpected = errors.New("a decision was not the expected one")

// A load is callers that decide at the same time.
type load struct {
	callers []loadCaller
	stop    atomic.Bool
}

// A loadCaller is one of them.
type loadCaller struct {
	scratch    scratch
	keys       int           // how many there are
	key        int           // the next one
	laps       []int32       // how long decisions took, in ns, as many as fit
	decisions  int           // made
	unexpected int           // how many of them were not as expected
	err        error         // of one that failed
	longest    time.Duration // of all
	_          [64]byte      // a caller's counters are its own
}

// mostLaps is how many times of decisions a load keeps.
const mostLaps = 1 << 19

func newLoad(callers, keys int) *load {
	l := &load{callers: make([]loadCaller, callers)}
	for i := range l.callers {
		c := &l.callers[i]
		c.keys, c.key = keys, i*keys/callers
		c.laps = make([]int32, 0, mostLaps/callers)
	}
	return l
}

// run has all callers decide for a time, and returns how long it took.
func (l *load) run(d *decider, busy time.Duration) time.Duration {
	l.stop.Store(false)
	var running sync.WaitGroup
	start := time.Now()
	for i := range l.callers {
		running.Go(func() { l.callers[i].run(d, &l.stop) })
	}
	time.Sleep(busy)
	l.stop.Store(true)
	running.Wait()
	return time.Since(start)
}

func (c *loadCaller) run(d *decider, stop *atomic.Bool) {
	c.laps, c.decisions, c.unexpected, c.err, c.longest = c.laps[:0], 0, 0, nil, 0
	begin := time.Now()
	now := time.Duration(0)
	for !stop.Load() {
		granted, err := d.take(&c.scratch, c.key)
		if err != nil {
			c.err = err
		}
		if err != nil || granted != d.granted {
			c.unexpected++
		}
		c.decisions++
		c.key = (c.key + 1) % c.keys
		if len(c.laps) < cap(c.laps) {
			took := time.Since(begin) - now
			now += took
			c.longest = max(c.longest, took)
			c.laps = append(c.laps, int32(min(took, math.MaxInt32)))
		}
	}
}

// sample measures loadMetrics.
func (l *load) sample(d *decider, busy time.Duration) ([]float64, error) {
	l.run(d, busy/5) // a warm-up
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := look(d.server)
	took := l.run(d, busy)
	end := look(d.server)
	runtime.ReadMemStats(&after)
	n, err := l.decisions(0.01)
	if err != nil {
		return nil, err
	}
	laps := l.laps()
	each := 1 / float64(n)
	return []float64{
		float64(n) / took.Seconds(),
		quantile(laps, 0.5), quantile(laps, 0.99),
		float64((end.cpu - begin.cpu).Nanoseconds()) / 1e3 * each,
		math.Round(float64(end.reads-begin.reads)*each*100) / 100,
		math.Round(float64(after.Mallocs-before.Mallocs)*each*10) / 10,
	}, nil
}

// decisions returns how many were made, and errors if more than a share of them
// was not as expected.
func (l *load) decisions(share float64) (int, error) {
	n, unexpected, err := 0, 0, errUnexpected
	for i := range l.callers {
		c := &l.callers[i]
		n += c.decisions
		unexpected += c.unexpected
		if c.err != nil {
			err = c.err
		}
	}
	if float64(unexpected) > share*float64(n) {
		return 0, fmt.Errorf("%d of %d: %w", unexpected, n, err)
	}
	return n, nil
}

// laps returns all times, in order.
func (l *load) laps() []int32 {
	var all []int32
	for i := range l.callers {
		all = append(all, l.callers[i].laps...)
	}
	slices.Sort(all)
	return all
}

// quantile returns a quantile of laps in order, in µs.
func quantile(laps []int32, q float64) float64 {
	if len(laps) == 0 {
		return math.NaN()
	}
	return float64(laps[int(q*float64(len(laps)-1))]) / 1e3
}

// A glance is what a server says of itself.
type glance struct {
	cpu   time.Duration // spent by the process
	reads int64         // from connections, but for those of looks
}

// look asks a server. What it costs the server, some tenths of a millisecond
// between two looks, is counted.
func look(s *redistest.Server) glance {
	reads, _ := strconv.ParseInt(s.Info("stats", "total_reads_processed"), 10, 64)
	stats := s.Stats()
	// Of a look's reads one comes before it counts.
	return glance{stats.CPU, reads}
}
