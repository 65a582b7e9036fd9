package rivals

import (
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

// httpRate is httprate's sliding window on its counter in memory. The library
// decides inside an HTTP handler that also writes headers; this is what the
// handler does, less the headers.
type httpRate struct {
	limit   float64
	window  time.Duration
	limiter *httprate.RateLimiter
	mu      sync.Mutex
}

func newHTTPRate(l Limit) (Limiter, error) {
	counter := httprate.NewLocalLimitCounter(l.Period)
	return &httpRate{
		limit: float64(l.Burst), window: l.Period,
		limiter: httprate.NewRateLimiter(l.Burst, l.Period, httprate.WithLimitCounter(counter)),
	}, nil
}

func (h *httpRate) Take(key string) bool {
	window := time.Now().UTC().Truncate(h.window)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, used, err := h.limiter.Status(key)
	if err != nil || used+1 > h.limit {
		return false
	}
	return h.limiter.Counter().IncrementBy(key, window, 1) == nil
}

func (*httpRate) Close() {}
