package inprocess

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/protolimit/ratelimit/backend/memory"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

// The metrics of memory.
const (
	heapPerKey    = "heap a key"
	collection    = "one forced collection"
	slowestInsert = "slowest insert"
	worstHeap     = "heap a key at worst"
	growth        = "second million ÷ first"
)

// The figure of a collection is the least of those that begin within
// collecting, and of leastCollections.
const (
	collecting       = 30 * time.Millisecond
	leastCollections = 2
)

// rivalRounds is in how many rounds rivals are filled. What they take does not
// change from round to round, and their collections take most of a run's time.
const rivalRounds = 3

// memoryUse fills each decider with keys: what they take, what a collection of
// them costs, and how long the slowest of the inserts took.
func memoryUse() *harness.Experiment {
	return &harness.Experiment{
		Name: "memory", Section: Section,
		Metrics: []harness.Metric{{Name: heapPerKey, Unit: "bytes"}, {Name: collection, Unit: "ms"}, {Name: slowestInsert, Unit: "ms"}},
		Rows: []harness.Row{
			{Label: "heap a key at 1M keys", Metric: heapPerKey, Of: nameOurs, Budget: harness.AtMost(40)},
			{Label: "one forced collection at 1M keys", Metric: collection, Of: nameOurs, Budget: harness.AtMost(2), Fold: harness.Min},
			{Label: "slowest insert while 1M keys come", Metric: slowestInsert, Of: nameOurs, Budget: harness.AtMost(2), Fold: harness.Min},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			first := newKeys(o.Keys, 1)
			contenders := []harness.Contender{
				{Name: nameOurs, Sample: func() ([]float64, error) {
					return footprint(first, func() (*decider, error) { return newOurs(coldLimit, o.Keys, 1) })
				}},
				{Name: "no keys at all", Sample: func() ([]float64, error) {
					return []float64{math.NaN(), collect(), math.NaN()}, nil
				}},
			}
			for i := range rivals.All {
				contenders = append(contenders, rounds(rivalRounds, harness.Contender{Name: rivals.All[i].Name, Sample: func() ([]float64, error) {
					return footprint(first, func() (*decider, error) { return newRival(&rivals.All[i], coldLimit) })
				}}))
			}
			return contenders, func() {}, nil
		},
	}
}

// rounds returns c as it is measured n times, and not again.
func rounds(n int, c harness.Contender) harness.Contender {
	var last []float64
	taken := 0
	return harness.Contender{Name: c.Name, Sample: func() (sample []float64, err error) {
		taken++
		if taken <= n {
			last, err = c.Sample()
			return last, err
		}
		none := make([]float64, len(last))
		for i := range none {
			none[i] = math.NaN()
		}
		return none, nil
	}}
}

// footprint is a sample of memoryUse.
func footprint(first keys, open func() (*decider, error)) ([]float64, error) {
	before := heap()
	d, err := open()
	if err != nil {
		return nil, err
	}
	slowest, err := fill(d, first)
	if err != nil {
		return nil, err
	}
	sample := []float64{float64(heap()-before) / float64(len(first)/keySize), collect(), millis(slowest)}
	runtime.KeepAlive(d)
	d.close()
	return sample, nil
}

// fill inserts all keys and returns how long the slowest took, of those during
// which the operating system ran nothing else, with one look at the clock and at
// that. It errors if any key is not there afterwards.
func fill(d *decider, all keys) (slowest time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	last, lastCount := time.Duration(0), preemptions()
	for i := range len(all) / keySize {
		if err := d.insert(all.at(i)); err != nil {
			return 0, err
		}
		now, count := time.Since(start), preemptions()
		if count == lastCount {
			slowest = max(slowest, now-last)
		}
		last, lastCount = now, count
	}
	if want := len(all) / keySize; d.holds != nil && d.holds()%want != 0 {
		return 0, fmt.Errorf("%d buckets are in use, want a multiple of %d", d.holds(), want)
	}
	return slowest, nil
}

// heap returns the bytes of live objects, and gives free memory back, so that
// who comes next starts as who was before.
func heap() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// collect returns how many ms a forced collection takes.
func collect() float64 {
	least, begin := time.Duration(math.MaxInt64), time.Now()
	for i := 0; i < leastCollections || time.Since(begin) < collecting; i++ {
		start := time.Now()
		runtime.GC()
		least = min(least, time.Since(start))
	}
	return millis(least)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// checkpoints is how many sizes worstFill looks at.
const checkpoints = 32

// worstFill is what a key takes when tables have just grown.
func worstFill() *harness.Experiment {
	return &harness.Experiment{
		Name: "steps", Section: Section, Metrics: []harness.Metric{{Name: worstHeap, Unit: "bytes"}},
		Rows: []harness.Row{{Label: "heap a key, the most between 500k and 1M keys", Metric: worstHeap, Of: nameOurs}},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			all := newKeys(o.Keys, 1)
			sample := func() ([]float64, error) {
				before := heap()
				d, err := newOurs(coldLimit, o.Keys, 1)
				if err != nil {
					return nil, err
				}
				worst, inserted := 0.0, 0
				for i := range checkpoints + 1 {
					want := o.Keys/2 + o.Keys*i/checkpoints/2
					for ; inserted < want; inserted++ {
						if err := d.insert(all.at(inserted)); err != nil {
							return nil, err
						}
					}
					worst = max(worst, float64(heap()-before)/float64(want))
				}
				d.close()
				return []float64{worst}, nil
			}
			return []harness.Contender{{Name: nameOurs, Sample: sample}}, func() {}, nil
		},
	}
}

// reuse fills each decider, lets the keys go idle, and fills it with as many
// others. Ours is told by its clock that time has passed. Rivals have to wait,
// so they are measured in the first round only: it is the same in all.
func reuse() *harness.Experiment {
	return &harness.Experiment{
		Name: "reuse", Section: Section, Metrics: []harness.Metric{{Name: growth}},
		Rows: []harness.Row{{
			Label: "memory with a second million keys, the first idle, ÷ with the first", Metric: growth, Of: nameOurs, Budget: harness.AtMost(1.1),
		}},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			first, second := newKeys(o.Keys, 1), newKeys(o.Keys, 2)
			contenders := []harness.Contender{{Name: nameOurs, Sample: func() ([]float64, error) {
				now := time.Now()
				clock := func() time.Time { return now }
				return refill(first, second, func() { now = now.Add(time.Hour) }, func() (*decider, error) {
					return newOurs(coldLimit, o.Keys, 1, memory.WithClock(clock))
				})
			}}}
			for i := range rivals.All {
				contenders = append(contenders, rivalReuse(&rivals.All[i], o.Rest, first, second))
			}
			return contenders, func() {}, nil
		},
	}
}

// rivalReuse is a rival in reuse.
func rivalReuse(r *rivals.Rival, rest time.Duration, first, second keys) harness.Contender {
	l, wait := coldLimit, func() {}
	if l.period = rest; r.Forgets {
		wait = func() { time.Sleep(2*rest + rest/2) }
	}
	return rounds(1, harness.Contender{Name: r.Name, Sample: func() ([]float64, error) {
		return refill(first, second, wait, func() (*decider, error) { return newRival(r, l) })
	}})
}

// refill is a sample of reuse.
func refill(first, second keys, rest func(), open func() (*decider, error)) ([]float64, error) {
	before := heap()
	d, err := open()
	if err != nil {
		return nil, err
	}
	if _, err := fill(d, first); err != nil {
		return nil, err
	}
	one := heap() - before
	rest()
	if _, err := fill(d, second); err != nil {
		return nil, err
	}
	two := heap() - before
	runtime.KeepAlive(d)
	d.close()
	return []float64{float64(two) / float64(one)}, nil
}
