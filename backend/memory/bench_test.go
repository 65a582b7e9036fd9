package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// Budgets are ratios to a floor, taken inside one run, for the machine may have
// other work:
//
//	go test -run '^$' -bench Ratio -cpu 1,2
//
// The floor is what a decision cannot do without: a read of the monotonic clock,
// a hash of the key, and an atomic change of a cache line that the hash picks,
// of 16 MiB.
type floor struct {
	start time.Time
	seed  maphash.Seed
	lines []line
}

type line struct {
	at atomic.Uint64
	_  [56]byte
}

func newFloor() *floor {
	return &floor{start: time.Now(), seed: maphash.MakeSeed(), lines: make([]line, 1<<18)}
}

func (f *floor) pass(key []byte) bool {
	now := uint64(time.Since(f.start))
	at := &f.lines[maphash.Bytes(f.seed, key)%uint64(len(f.lines))].at
	old := at.Load()
	return at.CompareAndSwap(old, max(old, now)+1)
}

// benchKey is as long as an address or an identifier.
type benchKey [24]byte

func (k *benchKey) set(n uint32) { binary.LittleEndian.PutUint32(k[8:], n) }

const manyKeys = 1 << 20

// orders are the keys that callers come with.
var orders = []struct {
	name string
	keys func() []uint32
}{
	{"keys=1", func() []uint32 { return make([]uint32, 1<<10) }},
	{"keys=1M/uniform", func() []uint32 {
		r := rand.New(rand.NewPCG(1, 2))
		order := make([]uint32, 1<<22)
		for i := range order {
			order[i] = r.Uint32N(manyKeys)
		}
		return order
	}},
	{"keys=1M/zipf", func() []uint32 {
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, manyKeys-1)
		order := make([]uint32, 1<<22)
		for i := range order {
			// Popular keys are not neighbours.
			order[i] = uint32(zipf.Uint64()) * 2654435761 % manyKeys
		}
		return order
	}},
}

// run calls pass with the keys of order, from as many goroutines as -cpu says.
func run(b *testing.B, order []uint32, l *ratelimit.Limit, pass func(c *caller)) {
	b.Helper()
	b.ReportAllocs()
	var begun atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		c := newCaller(l)
		i := begun.Add(1) * uint32(len(order)/7)
		for pb.Next() {
			c.key.set(order[i%uint32(len(order))])
			i++
			pass(c)
		}
	})
}

// A caller is one goroutine's slices, as an adapter pools them.
type caller struct {
	key      benchKey
	charges  [3]ratelimit.Charge
	verdicts [3]ratelimit.Verdict
}

// newCaller returns a caller who charges 1 to his key under each of limits.
func newCaller(limits ...*ratelimit.Limit) *caller {
	c := new(caller)
	for i, l := range limits {
		c.charges[i] = ratelimit.Charge{Limit: l, Key: c.key[:], Cost: 1}
	}
	return c
}

func (c *caller) take(b *Backend, n int) {
	_ = b.Take(context.Background(), c.charges[:n], c.verdicts[:n])
}

// fill charges each of n keys, from first on, once.
func fill(b *Backend, l *ratelimit.Limit, first, n uint32) {
	c := newCaller(l)
	for i := range n {
		c.key.set(first + i)
		c.take(b, 1)
	}
}

// A rival is something that decides by key.
type rival struct {
	name string
	pass func(c *caller)
}

// race lets rivals take turns of some thousand decisions, and reports the
// quickest turn of each and how the first's time is to be multiplied to give the
// median of the others'.
func race(b *testing.B, order []uint32, limits []*ratelimit.Limit, rivals ...rival) {
	b.Helper()
	const turn = 1 << 14
	procs := runtime.GOMAXPROCS(0)
	times := make([][]float64, len(rivals))
	next := make([]uint32, procs)
	for p := range next {
		next[p] = uint32(p * len(order) / procs)
	}
	for b.Loop() {
		for i, r := range rivals {
			var wait sync.WaitGroup
			var ready, start atomic.Int64
			for p := range procs {
				wait.Go(func() {
					// All begin when the last one runs.
					if ready.Add(1) == int64(procs) {
						start.Store(time.Now().UnixNano())
					}
					for start.Load() == 0 {
						runtime.Gosched()
					}
					c := newCaller(limits...)
					n := next[p]
					for range turn {
						c.key.set(order[n%uint32(len(order))])
						n++
						r.pass(c)
					}
					next[p] = n
				})
			}
			wait.Wait()
			took := time.Now().UnixNano() - start.Load()
			times[i] = append(times[i], float64(took)/turn/float64(procs))
		}
	}
	for i, r := range rivals {
		b.ReportMetric(slices.Min(times[i]), r.name+"-ns")
		if i > 0 {
			ratios := times[i]
			for n := range ratios {
				ratios[n] /= times[0][n]
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], r.name+"-x")
		}
	}
	b.ReportMetric(0, "ns/op")
}

func BenchmarkRatio(b *testing.B) {
	limits := []*ratelimit.Limit{
		limit(b, "b", "1000000/h", ratelimit.TokenBucket, 1_000_000_000),
		limit(b, "c", "2000000/h", ratelimit.TokenBucket, 1_000_000_000),
		limit(b, "d", "3000000/h", ratelimit.TokenBucket, 1_000_000_000),
	}
	for _, o := range orders {
		order := o.keys()
		one, three := mustOpen(b, WithMaxKeys(4<<20)), mustOpen(b, WithMaxKeys(4<<20))
		if len(order) > 1<<10 {
			fill(one, limits[0], 0, manyKeys)
			for _, l := range limits {
				fill(three, l, 0, manyKeys)
			}
		}
		f := newFloor()
		b.Run(o.name, func(b *testing.B) {
			race(b, order, limits,
				rival{"floor", func(c *caller) { f.pass(c.key[:]) }},
				rival{"one", func(c *caller) { c.take(one, 1) }},
			)
		})
		b.Run(o.name+"/rules=3", func(b *testing.B) {
			race(b, order, limits,
				rival{"one", func(c *caller) { c.take(one, 1) }},
				rival{"three", func(c *caller) { c.take(three, 3) }},
			)
		})
	}
}

func BenchmarkTakeAlgorithm(b *testing.B) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		for _, rate := range []string{"10000/s", "1/h"} {
			l := limit(b, "b", rate, a, 0)
			backend := mustOpen(b)
			b.Run(fmt.Sprintf("%v/%s/keys=1", a, rate), func(b *testing.B) {
				run(b, make([]uint32, 1), l, func(c *caller) { c.take(backend, 1) })
			})
		}
	}
}

// A new key each time, at the bound: each insert forgets another key.
func BenchmarkTakeNewKeys(b *testing.B) {
	for _, maxKeys := range []int{1 << 16, 1 << 20} {
		l := limit(b, "b", "100/h", ratelimit.TokenBucket, 0)
		backend := mustOpen(b, WithMaxKeys(maxKeys))
		fill(backend, l, 0, uint32(maxKeys))
		b.Run(fmt.Sprintf("bound=%d", maxKeys), func(b *testing.B) {
			b.ReportAllocs()
			c := newCaller(l)
			n := uint32(maxKeys)
			for b.Loop() {
				c.key.set(n)
				n++
				c.take(backend, 1)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory reports the heap bytes that a key takes, at the worst of many
// numbers of keys; the memory of a second million relative to the first; the time
// of a collection; and the slowest insert.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		clock := newHand()
		l := limit(b, "b", "10/s", ratelimit.TokenBucket, 0)
		before := heap()
		backend := mustOpen(b, WithClock(clock.now))
		worst, slowest := 0.0, time.Duration(0)
		const million = 1_000_000
		for n := uint32(0); n < million; n += 20_000 {
			for i := n; i < n+20_000; i++ {
				start := time.Now()
				fill(backend, l, i, 1)
				slowest = max(slowest, time.Since(start))
			}
			if n >= 700_000 {
				worst = max(worst, float64(heap()-before)/float64(n+20_000))
			}
		}
		first := heap() - before
		start := time.Now()
		runtime.GC()
		collection := time.Since(start)
		clock.us += 10_000_000
		fill(backend, l, million, million)
		second := heap() - before
		b.ReportMetric(float64(first)/million, "B/key")
		b.ReportMetric(worst, "worst-B/key")
		b.ReportMetric(float64(second)/float64(first), "second/first")
		b.ReportMetric(float64(collection.Microseconds()), "gc-µs")
		b.ReportMetric(float64(slowest.Microseconds()), "slowest-insert-µs")
		if stats := backend.Stats(); stats.Keys != million || stats.Evictions != 0 {
			b.Fatalf("%+v", stats)
		}
		runtime.KeepAlive(backend)
	}
}

// BenchmarkGrow is the longest that a lock is held: one shard of the default
// size, full, and copied.
func BenchmarkGrow(b *testing.B) {
	l := limit(b, "b", "100/d", ratelimit.TokenBucket, 0)
	backend := mustOpen(b)
	fill(backend, l, 0, defaultMaxKeys)
	t := &backend.shards[0].tables[bucketKind]
	for b.Loop() {
		t.resize(t.slots(), 0)
	}
	b.ReportMetric(float64(t.used), "keys")
}
