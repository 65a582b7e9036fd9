package rivals

import (
	"sync"

	"golang.org/x/time/rate"
)

// timeRate is what most programs write around golang.org/x/time/rate: a map of
// limiters behind a mutex. It answers yes or no, and forgets no key.
type timeRate struct {
	limit rate.Limit
	burst int

	mu   sync.Mutex
	keys map[string]*rate.Limiter
}

func newTimeRate(l Limit) (Limiter, error) {
	return &timeRate{
		limit: rate.Limit(float64(l.Count) / l.Window.Seconds()), burst: l.Burst,
		keys: map[string]*rate.Limiter{},
	}, nil
}

func (t *timeRate) Take(key string) bool {
	t.mu.Lock()
	limiter, found := t.keys[key]
	if !found {
		limiter = rate.NewLimiter(t.limit, t.burst)
		t.keys[key] = limiter
	}
	t.mu.Unlock()
	return limiter.Allow()
}

func (*timeRate) Close() {}
