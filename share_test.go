package ratelimit

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		rule    Rule
		n       int
		rate    Rate
		most    int64
		largest int64
	}{
		{Rule{Rate: Rate{30, time.Minute}}, 3, Rate{30, 3 * time.Minute}, 10, 30},
		{Rule{Rate: Rate{10, time.Second}, Burst: 20}, 3, Rate{10, 3 * time.Second}, 7, 20},
		{Rule{Rate: Rate{30, time.Minute}, Algorithm: FixedWindow}, 3, Rate{10, time.Minute}, 10, 30},
		{Rule{Rate: Rate{10, time.Minute}, Algorithm: SlidingLog}, 3, Rate{4, time.Minute}, 4, 10},
		{Rule{Rate: Rate{1, time.Minute}, Algorithm: SlidingWindow}, 100, Rate{1, time.Minute}, 1, 1},
		{Rule{Rate: Rate{1, 366 * day}}, 1000, Rate{1, math.MaxInt64}, 1, 1},
		{Rule{Rate: Rate{0, time.Minute}}, 3, Rate{0, time.Minute}, 0, 0},
		{Rule{Rate: Rate{10, time.Minute}}, 1, Rate{10, time.Minute}, 10, 10},
		{Rule{Rate: Rate{10, time.Minute}}, 0, Rate{10, time.Minute}, 10, 10},
	} {
		l, err := NewLimit("b", c.rule)
		if err != nil {
			t.Fatal(err)
		}
		s := l.Share(c.n)
		if s.Rate() != c.rate || s.Most() != c.most || s.Largest() != c.largest || s.Bucket() != "b" || s.Hash() != l.Hash() {
			t.Errorf("share 1/%d of %v is %v, at most %d, largest %d; want %v, %d, %d", c.n, l, s, s.Most(), s.Largest(), c.rate, c.most, c.largest)
		}
	}
}

// TestSharesAddUp: n instances drain exactly the rate, and grant at once the
// burst and less than one unit an instance more.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, MaxWindow.Milliseconds()).Draw(t, "ms")
		rate := Rate{rapid.Int64Range(1, min(MaxCount, ms*(MaxPerSecond/1000))).Draw(t, "count"), time.Duration(ms) * time.Millisecond}
		l, err := NewLimit("b", Rule{Rate: rate, Burst: rapid.Int64Range(1, MaxCount).Draw(t, "burst")})
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		s := l.Share(n)
		perUnit := func(l *Limit) *big.Rat {
			num, den := l.Drain()
			r := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
			return r.Quo(r, new(big.Rat).SetInt64(1<<l.Shift()))
		}
		if all := perUnit(s); all.Mul(all, new(big.Rat).SetInt64(int64(n))).Cmp(perUnit(l)) != 0 {
			t.Fatalf("%d shares of %v drain %v, want %v", n, l, all, perUnit(l))
		}
		if together := s.Most() * int64(n); together < l.Most() || together >= l.Most()+int64(n) {
			t.Fatalf("%d shares of %v grant %d at once", n, l, together)
		}
	})
}
