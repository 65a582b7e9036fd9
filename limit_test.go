package ratelimit

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimitCountsInSteps(t *testing.T) {
	for _, c := range []struct {
		rule  Rule
		shift uint8
	}{
		{Rule{Rate: Rate{10, time.Second}}, 20},
		{Rule{Rate: Rate{1, time.Minute}, Burst: 1 << 32}, 20},
		{Rule{Rate: Rate{1, time.Minute}, Burst: 1<<32 + 1}, 10},
		{Rule{Rate: Rate{1e12, day}}, 10},
		{Rule{Rate: Rate{1e12, day}, Burst: 5}, 20},
	} {
		l, err := NewLimit("b", c.rule)
		if err != nil || l.Shift() != c.shift {
			t.Errorf("NewLimit(%+v) has shift %d, %v; want %d", c.rule, l.Shift(), err, c.shift)
		}
	}
}

func TestDrainIsTheRateInLowestTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, MaxWindow.Milliseconds()).Draw(t, "ms")
		rate := Rate{rapid.Int64Range(1, min(MaxCount, ms*(MaxPerSecond/1000))).Draw(t, "count"), time.Duration(ms) * time.Millisecond}
		l, err := NewLimit("b", Rule{Rate: rate, Burst: rapid.Int64Range(1, MaxCount).Draw(t, "burst")})
		if err != nil {
			t.Fatal(err)
		}
		num, den := l.Drain()
		steps := new(big.Int).Lsh(big.NewInt(rate.Count), uint(l.Shift()))
		want := new(big.Rat).SetFrac(steps, big.NewInt(ms*1000))
		if want.Num().Uint64() != num || want.Denom().Uint64() != den {
			t.Fatalf("%v drains %d/%d, want %v", l, num, den, want)
		}
	})
}

func TestBucketsOfAnotherAlgorithmAreOthers(t *testing.T) {
	seen := map[uint64]string{}
	for a := range algorithms {
		for _, bucket := range []string{"", "a", "b", "/a.S/M#burst", "/a.S#burst"} {
			l, err := NewLimit(bucket, Rule{Rate: Rate{10, time.Second}, Algorithm: a})
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[l.Hash()]; ok {
				t.Errorf("%v and %s have the same hash", l, other)
			}
			seen[l.Hash()] = l.String()
		}
	}
}

func TestNewLimitRefusesNumbersOutOfRange(t *testing.T) {
	_, err := NewLimit("b", Rule{Name: "ignored", Rate: Rate{10, time.Second}, Burst: -1})
	if e := (*RuleError)(nil); !errors.As(err, &e) || e.Field != "burst" {
		t.Errorf("NewLimit: %v, want a RuleError about burst", err)
	}
}
