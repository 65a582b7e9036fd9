package breaker_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// BenchmarkTake is a healthy call of one rule, of three instances, beside the same
// call of its primary alone. The primary is in the process, so what is shown is
// what the breaker adds: its state and the mirror.
func BenchmarkTake(b *testing.B) {
	l := perHour(b, "b", 1<<30, ratelimit.Local)
	alone := bounded{newMemory(b)}
	for name, backend := range map[string]ratelimit.Backend{"alone": alone, "breaker": newBreaker(b, bounded{newMemory(b)})} {
		b.Run(name+"/1k keys/serial", func(b *testing.B) {
			b.ReportAllocs()
			takeMany(b, backend, l, b.Loop)
		})
		b.Run(name+"/1k keys/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { takeMany(b, backend, l, pb.Next) })
		})
	}
}

// takeMany makes calls for 1,000 keys in turn.
func takeMany(b *testing.B, backend ratelimit.Backend, l *ratelimit.Limit, more func() bool) {
	b.Helper()
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = []byte("user-" + strconv.Itoa(i))
	}
	charges, verdicts := make([]ratelimit.Charge, 1), make([]ratelimit.Verdict, 1)
	for i := 0; more(); i++ {
		charges[0] = ratelimit.Charge{Limit: l, Key: keys[i%len(keys)], Cost: 1}
		if err := backend.Take(context.Background(), charges, verdicts); err != nil {
			b.Error(err)
			return
		}
	}
}

// bounded is a primary without the counting of tests.
type bounded struct{ *memory.Backend }

func (bounded) Budget() time.Duration { return time.Millisecond }

func (bounded) Instances() int { return 3 }

// BenchmarkHealthyRedis is 64 callers of a Redis that is well, for 100,000 keys,
// beside the same callers without a breaker.
func BenchmarkHealthyRedis(b *testing.B) {
	url := redistest.Shared(b).URL()
	for name, open := range map[string]func() ratelimit.Backend{
		"alone": func() ratelimit.Backend { return openPrimary(b, url, goredis.WithBudget(time.Second)) },
		"breaker": func() ratelimit.Backend {
			primary := openPrimary(b, url, goredis.WithBudget(time.Second))
			return newBreaker(b, primary, breaker.WithBudget(time.Second), breaker.WithInstances(3))
		},
	} {
		b.Run(name, func(b *testing.B) {
			backend, l := open(), perHour(b, name, 1<<30, ratelimit.Local)
			b.ReportAllocs()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) { takeRandom(b, backend, l, pb.Next) })
		})
	}
}

// takeRandom makes calls for 100,000 keys by chance.
func takeRandom(b *testing.B, backend ratelimit.Backend, l *ratelimit.Limit, more func() bool) {
	b.Helper()
	charges, verdicts := make([]ratelimit.Charge, 1), make([]ratelimit.Verdict, 1)
	var key []byte
	for more() {
		key = strconv.AppendInt(append(key[:0], "user-"...), rand.N[int64](100_000), 10)
		charges[0] = ratelimit.Charge{Limit: l, Key: key, Cost: 1}
		if err := backend.Take(context.Background(), charges, verdicts); err != nil {
			b.Error(err)
			return
		}
	}
}
