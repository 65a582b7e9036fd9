package goredis

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/protolimit/ratelimit"
)

// asking returns a request whose buckets have so much left, and are asked for so
// many units.
func asking(leftAndUnits ...[2]int64) *request {
	r := &request{}
	for _, n := range leftAndUnits {
		r.buckets = append(r.buckets, bucket{units: n[1], verdict: ratelimit.Verdict{Allowed: true, Remaining: n[0]}})
	}
	return r
}

// Of a call on several slots the one that is the likeliest to be refused goes
// first.
func TestTightest(t *testing.T) {
	for _, test := range []struct {
		name     string
		requests []*request
		want     int
	}{
		{"one", []*request{asking([2]int64{5, 1})}, 0},
		{"the first", []*request{asking([2]int64{3, 1}), asking([2]int64{4, 1})}, 0},
		{"the second", []*request{asking([2]int64{100, 1}), asking([2]int64{3, 1})}, 1},
		{"by what is left after the charge", []*request{asking([2]int64{3, 1}), asking([2]int64{50, 49})}, 1},
		{"by any bucket", []*request{asking([2]int64{50, 1}), asking([2]int64{60, 1}), asking([2]int64{90, 1}, [2]int64{2, 1})}, 2},
		{"what is only read does not count", []*request{asking([2]int64{9, 1}), asking([2]int64{0, 0})}, 0},
	} {
		if got := (&call{requests: test.requests}).tightest(); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

// Numbers are sent as doubles, of which none is above those that are exact.
func TestAppendDoubleStaysExact(t *testing.T) {
	for n, want := range map[int64]float64{
		0: 0, 1: 1, -1: -1, maxDouble: maxDouble, -maxDouble: -maxDouble,
		maxDouble + 1: maxDouble, -maxDouble - 1: -maxDouble, math.MaxInt64: maxDouble, math.MinInt64: -maxDouble,
	} {
		sent := appendDouble([]byte{7}, n)
		if got := math.Float64frombits(binary.LittleEndian.Uint64(sent[1:])); len(sent) != 9 || sent[0] != 7 || got != want {
			t.Errorf("%d is sent as %v in %v, want %v", n, got, sent, want)
		}
	}
}
