package breaker

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// A table that is loaded again and again leaves no more behind than is bounded,
// and a share is always that of its own limit and number.
func TestSharesAreBounded(t *testing.T) {
	var s shares
	first := newLimit(t, 10)
	for i := range 2*mostShares + 10 {
		l := newLimit(t, int64(i%100+1))
		for n := 2; n < 4; n++ {
			if got, want := s.of(l, n).Most(), (l.Most()+int64(n)-1)/int64(n); got != want {
				t.Fatalf("the share of %v in %d is %d, want %d", l, n, got, want)
			}
		}
		if again, known := s.of(l, 3), s.of(l, 3); again != known {
			t.Fatal("a share is made twice")
		}
	}
	size := 0
	s.known.Range(func(any, any) bool { size++; return true })
	if size > mostShares {
		t.Errorf("%d shares are remembered, want at most %d", size, mostShares)
	}
	if s.of(first, 2).Most() != 5 || s.of(first, 1) != first {
		t.Error("the share of a limit that was forgotten is another")
	}
}

// Limits whose hashes meet do not forget each other's shares.
func TestSharesOfEqualHashes(t *testing.T) {
	var s shares
	one, two := newLimit(t, 10), newLimit(t, 20)
	x, y := s.of(one, 2), s.of(two, 2)
	if n := testing.AllocsPerRun(100, func() {
		if s.of(one, 2) != x || s.of(two, 2) != y {
			t.Error("a share is made twice")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func newLimit(t *testing.T, n int64) *ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.NewLimit("b", ratelimit.Rule{Rate: ratelimit.Rate{Count: n, Window: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
