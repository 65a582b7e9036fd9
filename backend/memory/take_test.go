package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/protolimit/ratelimit"
)

func TestCallsThatAreNoneFail(t *testing.T) {
	b := mustOpen(t)
	closed := mustOpen(t)
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
	}
	reason := errors.New("the caller has left")
	left, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	l := limit(t, "b", "10/s", ratelimit.TokenBucket, 0)
	one := []ratelimit.Charge{{Limit: l, Cost: 1}}
	for _, c := range []struct {
		name     string
		backend  *Backend
		ctx      context.Context
		charges  []ratelimit.Charge
		verdicts int
		want     error
	}{
		{"after Close", closed, context.Background(), one, 1, ratelimit.ErrUnavailable},
		{"after the caller left", b, left, one, 1, reason},
		{"different lengths", b, context.Background(), one, 2, ratelimit.ErrBackendBug},
		{"a negative cost", b, context.Background(), []ratelimit.Charge{{Limit: l, Cost: -1}}, 1, ratelimit.ErrBackendBug},
		{"a negative cost among others", b, context.Background(), []ratelimit.Charge{{Limit: l, Cost: 1}, {Limit: l, Cost: -1}}, 2, ratelimit.ErrBackendBug},
	} {
		if err := c.backend.Take(c.ctx, c.charges, make([]ratelimit.Verdict, c.verdicts)); !errors.Is(err, c.want) {
			t.Errorf("%s: Take() = %v, want %v", c.name, err, c.want)
		}
	}
	for _, c := range []struct {
		name    string
		backend *Backend
		ctx     context.Context
		cost    int64
		want    error
	}{
		{"after Close", closed, context.Background(), 1, ratelimit.ErrUnavailable},
		{"after the caller left", b, left, 1, reason},
		{"a negative cost", b, context.Background(), -1, ratelimit.ErrBackendBug},
	} {
		deltas := []ratelimit.Delta{{Limit: l, Cost: 1, Units: 1}, {Limit: l, Cost: c.cost, Units: 1}}
		if err := c.backend.Adjust(c.ctx, deltas); !errors.Is(err, c.want) {
			t.Errorf("%s: Adjust() = %v, want %v", c.name, err, c.want)
		}
	}
	if got := charge(t, b, l, "", 0); got.Remaining != 10 {
		t.Errorf("%+v, want 10 remaining: calls that failed charge nothing", got)
	}
	if err := b.Take(context.Background(), nil, nil); err != nil {
		t.Errorf("Take of nothing = %v", err)
	}
}

// Any number of charges, on many buckets and on one, in any order.
func TestManyCharges(t *testing.T) {
	for _, n := range []int{2, 4, 5, 32, 33, 1000} {
		b := mustOpen(t)
		l := limit(t, "b", "1000/h", ratelimit.TokenBucket, 0)
		charges := make([]ratelimit.Charge, n)
		for i := range charges {
			charges[i] = ratelimit.Charge{Limit: l, Key: fmt.Append(nil, i/2), Cost: 1}
		}
		verdicts := make([]ratelimit.Verdict, n)
		if err := b.Take(context.Background(), charges, verdicts); err != nil {
			t.Fatal(err)
		}
		for i, v := range verdicts {
			want := int64(998)
			if i == n-1 && n%2 == 1 {
				want = 999
			}
			if !v.Allowed || v.Remaining != want || v.Receipt.At == 0 {
				t.Errorf("charge %d of %d: %+v, want %d remaining", i, n, v, want)
			}
		}
		charges[n/2].Cost = 1000
		if err := b.Take(context.Background(), charges, verdicts); err != nil {
			t.Fatal(err)
		}
		for i, v := range verdicts {
			if refused := i/2 == n/4; v.Allowed == refused || v.Receipt.At != 0 {
				t.Errorf("charge %d of %d: %+v, want allowed %v", i, n, v, !refused)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	b := mustOpen(t)
	ctx := t.Context() // one that can end
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		for _, n := range []int{1, 3, 32} {
			l, full := limit(t, "b", "10000/h", a, 0), limit(t, "c", "1/h", a, 0)
			charges := make([]ratelimit.Charge, n)
			for i := range charges {
				charges[i] = ratelimit.Charge{Limit: l, Key: fmt.Append(nil, i), Cost: 1}
			}
			verdicts := make([]ratelimit.Verdict, n)
			deltas := make([]ratelimit.Delta, 1)
			call := func() {
				_ = b.Take(ctx, charges, verdicts)
				deltas[0] = ratelimit.Delta{Limit: l, Key: charges[0].Key, Cost: 1, Units: -1, Receipt: verdicts[0].Receipt}
				_ = b.Adjust(ctx, deltas)
				charges[0].Limit = full
				_ = b.Take(ctx, charges, verdicts)
				charges[0].Limit = l
			}
			call()
			if got := testing.AllocsPerRun(50, call); got >= 1 {
				t.Errorf("%v, %d charges: %v allocations", a, n, got)
			}
		}
	}
}

// The places of Sharder, Counter and FallbackReporter.
func TestOneInstance(t *testing.T) {
	b := mustOpen(t)
	l := limit(t, "b", "10/s", ratelimit.TokenBucket, 0)
	if got := b.Shard(&ratelimit.Charge{Limit: l}); got != b.Shard(&ratelimit.Charge{Limit: l, Key: []byte("key")}) {
		t.Errorf("Shard() = %q and another", got)
	}
	if got := b.Instances(); got != 1 {
		t.Errorf("Instances() = %d, want 1", got)
	}
	if !b.HasFallback() {
		t.Error("HasFallback() = false")
	}
}
