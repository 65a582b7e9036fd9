//go:build !race

package breaker_test

import (
	"testing"

	"github.com/protolimit/ratelimit"
)

// A call that the primary decides allocates nothing here, mirror included: with one
// rule and with several, of one instance and of several, with shards and without,
// granted and refused.
func TestHealthyCallsDoNotAllocate(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   int
		fleet   int
		sharded bool
		most    int64
	}{
		{"one rule", 1, 1, false, 1 << 30},
		{"three rules of three instances", 3, 3, false, 1 << 30},
		{"one rule of one shard of several", 1, 3, true, 1 << 30},
		{"three rules in one shard of several", 3, 3, true, 1 << 30},
		{"refused", 3, 3, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPrimary(t)
			p.fleet = c.fleet
			var backend ratelimit.Backend = p
			if c.sharded {
				backend = oneShard{p}
			}
			b := newBreaker(t, backend)
			ctx := t.Context()
			call := newCall(t, c.rules, c.most)
			if n := testing.AllocsPerRun(1000, func() {
				if err := b.Take(ctx, call.charges, call.verdicts); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%v allocations a call, want 0", n)
			}
			if s := b.Status(); s.Local != 0 {
				t.Errorf("the fallback decided: %v", s)
			}
		})
	}
}

// oneShard is a primary with shards.
type oneShard struct{ *primary }

func (oneShard) Shard(*ratelimit.Charge) string { return "a" }

var _ ratelimit.Sharder = oneShard{}

// A call is what its caller pools.
type call struct {
	charges  []ratelimit.Charge
	verdicts []ratelimit.Verdict
}

// newCall returns a call of some rules with some burst.
func newCall(t testing.TB, rules int, most int64) *call {
	t.Helper()
	c := &call{verdicts: make([]ratelimit.Verdict, rules)}
	for i := range rules {
		l := perHour(t, string(rune('a'+i)), most, ratelimit.Local)
		c.charges = append(c.charges, ratelimit.Charge{Limit: l, Key: []byte("alice"), Cost: 1})
	}
	return c
}
