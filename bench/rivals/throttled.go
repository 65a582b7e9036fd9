package rivals

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledGCRA is throttled's cell rate algorithm on its store in memory,
// without a bound of keys: with one, each call takes the lock of a list.
type throttledGCRA struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(l Limit) (Limiter, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(l.Count, l.Window), MaxBurst: l.Burst - 1,
	})
	return throttledGCRA{limiter}, err
}

func (t throttledGCRA) Take(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}

func (throttledGCRA) Close() {}
