package rivals

import (
	"context"

	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// goLimiter is go-limiter's store in memory: a counter for each key that is
// filled again when an interval, counted from the key's first call, is over.
type goLimiter struct{ store limiter.Store }

func newGoLimiter(l Limit) (Limiter, error) {
	store, err := memorystore.New(&memorystore.Config{
		Tokens: uint64(l.Burst), Interval: l.Period, SweepInterval: l.Period, SweepMinTTL: l.Period,
	})
	return goLimiter{store}, err
}

func (g goLimiter) Take(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}

func (g goLimiter) Close() { _ = g.store.Close(context.Background()) }
