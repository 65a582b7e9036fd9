//go:build !race

package interceptor_test

import (
	"testing"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// The race detector has sync.Pool forget things on purpose, so that allocations
// are counted without it.

func TestServedCallAllocatesNothing(t *testing.T) {
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10, part(ratelimit.SourceIP))}, unary), answer(granted))
	intercept := interceptor.UnaryServer(l, interceptor.WithQuotaHeaders(false))
	ctx := incoming(&transportStream{})
	n := testing.AllocsPerRun(1000, func() {
		if _, err := intercept(ctx, nil, unaryInfo, pass); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("a served call by ip without quota headers: %v allocations, want 0", n)
	}
}
