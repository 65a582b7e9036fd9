package goredis

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// A logbook keeps what is logged.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// opened returns a backend with a client of its own, closed with the test.
func opened(t *testing.T, url string, opts ...Option) *Backend {
	t.Helper()
	b, err := Open(url, append([]Option{WithBudget(10 * time.Second)}, opts...)...)
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

// took makes a call that is decided.
func took(t *testing.T, b *Backend, l *ratelimit.Limit, key []byte) ratelimit.Verdict {
	t.Helper()
	verdicts := make([]ratelimit.Verdict, 1)
	if err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Key: key, Cost: 1}}, verdicts); err != nil {
		t.Fatalf("Take: %v", err)
	}
	return verdicts[0]
}
