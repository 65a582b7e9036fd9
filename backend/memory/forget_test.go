package memory

import (
	"context"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/protolimit/ratelimit"
)

// twins are a backend with little room and one with plenty, which are asked the
// same.
type twins struct {
	clock        *hand
	small, roomy *Backend
	grants       [][2]ratelimit.Delta // of both, each with its own receipt
}

const (
	twinKeys    = 40
	twinEntries = 600
)

func newTwins(t *rapid.T, clock *hand) *twins {
	return &twins{
		clock: clock,
		small: mustOpen(t, WithMaxKeys(twinKeys), WithMaxLogEntries(twinEntries), WithClock(clock.now)),
		roomy: mustOpen(t, WithClock(clock.now)),
	}
}

func (w *twins) take(t *rapid.T, limits []*ratelimit.Limit) {
	charges := make([]ratelimit.Charge, rapid.SampledFrom([]int{1, 1, 1, 2, 3, 5, 12}).Draw(t, "charges"))
	for i := range charges {
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		key := fmt.Appendf(nil, "key%d", rapid.IntRange(0, 30).Draw(t, "key"))
		charges[i] = ratelimit.Charge{Limit: l, Key: key, Cost: rapid.Int64Range(0, l.Most()/3+2).Draw(t, "cost")}
	}
	var verdicts [2][]ratelimit.Verdict
	for i, b := range []*Backend{w.small, w.roomy} {
		verdicts[i] = make([]ratelimit.Verdict, len(charges))
		if err := b.Take(context.Background(), charges, verdicts[i]); err != nil {
			t.Fatalf("Take() = %v", err)
		}
	}
	if w.small.Stats().Evictions > 0 {
		return // which forgot what counts: there were too many keys
	}
	for i, c := range charges {
		got, want := verdicts[0][i], verdicts[1][i]
		if got.Receipt.At != 0 {
			d := ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Receipt: got.Receipt}
			w.grants = append(w.grants, [2]ratelimit.Delta{d, d})
			w.grants[len(w.grants)-1][1].Receipt = want.Receipt
		}
		if c.Limit.Algorithm() == ratelimit.SlidingLog {
			got.Receipt.Entry, want.Receipt.Entry = 0, 0 // names of its own
		}
		if got != want {
			t.Fatalf("%q under %v:\ngot  %+v\nwant %+v", c.Key, c.Limit, got, want)
		}
	}
}

func (w *twins) adjust(t *rapid.T) {
	if len(w.grants) == 0 {
		return
	}
	pair := rapid.SampledFrom(w.grants).Draw(t, "grant")
	units := rapid.OneOf(
		rapid.Int64Range(-pair[0].Cost-1, pair[0].Cost),
		rapid.SampledFrom([]int64{1, math.MaxInt64, -math.MaxInt64}),
	).Draw(t, "units")
	for i, b := range []*Backend{w.small, w.roomy} {
		pair[i].Units = units
		if err := b.Adjust(context.Background(), pair[i:i+1]); err != nil {
			t.Fatalf("Adjust() = %v", err)
		}
	}
}

// As long as all that counts has room, nobody can tell how much more there is:
// what is forgotten meanwhile was empty.
func TestForgettingIsNotNoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newHand()
		w := newTwins(t, clock)
		var limits []*ratelimit.Limit
		for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
			rate := rapid.SampledFrom([]string{"10/s", "7/3s", "3/100ms", "1/366d", "0/s", "5/7ms"}).Draw(t, "rate")
			limits = append(limits, limit(t, "b", rate, a, 0), limit(t, "c", "3/100ms", a, 0))
		}
		t.Repeat(map[string]func(*rapid.T){
			"take":   func(t *rapid.T) { w.take(t, limits) },
			"adjust": func(t *rapid.T) { w.adjust(t) },
			"wait": func(t *rapid.T) {
				clock.us += rapid.OneOf(
					rapid.Int64Range(0, 2_000),
					rapid.Int64Range(0, 500_000),
					rapid.SampledFrom([]int64{100_000, 200_000, 3_600_000_000}),
				).Draw(t, "µs")
			},
			"": func(t *rapid.T) {
				checkInvariants(t, w.small, twinKeys, twinEntries)
				checkInvariants(t, w.roomy, defaultMaxKeys, defaultMaxLogEntries)
				if w.small.Stats().Evictions > 0 {
					w = newTwins(t, clock)
				} else if got, want := w.small.Stats().Keys, w.roomy.Stats().Keys; got != want {
					t.Fatalf("%d keys count, want %d", got, want)
				}
			},
		})
	})
}
