package harness

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Batch makes n decisions, and errors if one of them is not the expected one.
type Batch func(n int) error

// A Slice is how long a contender decides before the next one's turn.
type Slice struct {
	// Warm comes first and is not counted: the contender before has left the
	// caches to its own state.
	Warm time.Duration
	// Parts is how many parts of a millisecond follow, 1 or more.
	Parts int
}

const (
	part = time.Millisecond
	// late is how far from its time a part may end or begin to count. What the
	// operating system runs instead takes longer than that.
	late = part / 2
	// batchTime is about how long passes between two looks at the clock, which
	// so cost a thousandth of that.
	batchTime = 50 * time.Microsecond
	maxBatch  = 1 << 14
	// tries is how often a slice is repeated until one of its parts counts.
	tries = 4
)

// Time runs each worker in a goroutine of its own, all at once, and returns how
// long a decision takes its caller, in ns, and how many objects it allocates.
//
// The figure is the median of those parts in which every worker had a processor
// from beginning to end. If there is none, not even in a repetition, it is NaN.
func Time(slice Slice, workers ...Batch) (nanos, allocations float64, err error) {
	for range tries {
		if nanos, allocations, err = timeOnce(slice, workers); err != nil || !math.IsNaN(nanos) {
			break
		}
	}
	return nanos, allocations, err
}

// A lap is what a worker did in one part.
type lap struct {
	decisions  int
	begin, end time.Duration // since the workers met
}

func timeOnce(slice Slice, workers []Batch) (nanos, allocations float64, err error) {
	laps, errs := make([][]lap, len(workers)), make([]error, len(workers))
	m := meeting{expected: int32(len(workers))}
	var finished sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, work := range workers {
		laps[i] = make([]lap, 1, slice.Parts+1)
		finished.Go(func() {
			laps[i], errs[i] = work.laps(m.start(), slice, laps[i])
		})
	}
	finished.Wait()
	runtime.ReadMemStats(&after)
	total := 0
	for i := range workers {
		if errs[i] != nil {
			return 0, 0, errs[i]
		}
		for _, l := range laps[i] {
			total += l.decisions
		}
	}
	objects := float64(after.Mallocs-before.Mallocs) / float64(total)
	// The goroutines are a few objects too, among thousands of decisions.
	return slice.judge(laps), math.Round(objects*100) / 100, nil
}

// A meeting has workers begin together.
type meeting struct {
	expected int32
	arrived  atomic.Int32
	at       atomic.Pointer[time.Time]
}

// start waits, awake, until all workers are there, and returns when that was.
func (m *meeting) start() time.Time {
	if m.arrived.Add(1) == m.expected {
		now := time.Now()
		m.at.Store(&now)
	}
	for m.at.Load() == nil {
	}
	return *m.at.Load()
}

// laps makes decisions for the time of a slice. The first lap is the warm-up.
func (work Batch) laps(start time.Time, slice Slice, laps []lap) ([]lap, error) {
	now := time.Since(start)
	n := 1
	for first := true; first || now < slice.Warm; first = false {
		if err := work(n); err != nil {
			return laps, err
		}
		laps[0].decisions += n
		took := time.Since(start) - now
		if now += took; took < batchTime && n < maxBatch {
			n *= 2
		}
	}
	for i := range slice.Parts {
		l := lap{begin: now}
		for end := slice.Warm + time.Duration(i+1)*part; now < end; now = time.Since(start) {
			if err := work(n); err != nil {
				return laps, err
			}
			l.decisions += n
		}
		l.end = now
		laps = append(laps, l)
	}
	return laps, nil
}

// judge returns the median over the undisturbed parts of a slice.
func (slice Slice) judge(laps [][]lap) float64 {
	var undisturbed []float64
	for i := range slice.Parts {
		from := slice.Warm + time.Duration(i)*part
		rate, onTime := 0.0, true
		for _, worker := range laps {
			l := worker[i+1]
			rate += float64(l.decisions) / float64(max(l.end-l.begin, 1))
			onTime = onTime && l.decisions > 0 && l.begin-from < late && l.end-from-part < late
		}
		if onTime {
			undisturbed = append(undisturbed, float64(len(laps))/rate)
		}
	}
	return Median(undisturbed)
}
