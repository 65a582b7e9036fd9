package memory

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/protolimit/ratelimit"
)

// limit returns a limit for tests: "10/s", 0 for the burst of a window.
func limit(t rapid.TB, bucket, rate string, a ratelimit.Algorithm, burst int64) *ratelimit.Limit {
	t.Helper()
	r, err := ratelimit.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Rate: r, Algorithm: a, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A hand is a clock that a test sets.
type hand struct{ us int64 }

// hand's first instant is that of an hour, so that windows begin there.
const firstInstant = 1_767_225_600_000_000 // 2026-01-01

func newHand() *hand { return &hand{firstInstant} }

func (h *hand) now() time.Time { return time.UnixMicro(h.us) }

func mustOpen(t rapid.TB, opts ...Option) *Backend {
	t.Helper()
	b, err := New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// charge takes one charge and returns its verdict.
func charge(t rapid.TB, b *Backend, l *ratelimit.Limit, key string, cost int64) ratelimit.Verdict {
	t.Helper()
	var v [1]ratelimit.Verdict
	if err := b.Take(context.Background(), []ratelimit.Charge{{Limit: l, Key: []byte(key), Cost: cost}}, v[:]); err != nil {
		t.Fatalf("Take(%q, %d) = %v", key, cost, err)
	}
	return v[0]
}
