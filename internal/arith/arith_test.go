package arith

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// anySize draws numbers of all lengths alike.
func anySize(most uint) *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		length := rapid.UintRange(0, most).Draw(t, "bits")
		return rapid.Uint64().Draw(t, "number") & (1<<length - 1)
	})
}

// fit returns n, and the largest uint64 if that is less.
func fit(n *big.Int) uint64 {
	if !n.IsUint64() {
		return math.MaxUint64
	}
	return n.Uint64()
}

func TestMulDiv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, d := anySize(64).Draw(t, "a"), anySize(64).Draw(t, "b"), max(1, anySize(64).Draw(t, "d"))
		toBig := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
		product := new(big.Int).Mul(toBig(a), toBig(b))
		quotient, rest := new(big.Int).QuoRem(product, toBig(d), new(big.Int))
		down := fit(quotient)
		if rest.Sign() > 0 {
			quotient.Add(quotient, toBig(1))
		}
		up := fit(quotient)
		if got := MulDiv(a, b, d); got != down {
			t.Fatalf("MulDiv(%d, %d, %d) = %d, want %d", a, b, d, got, down)
		}
		if got := MulDivUp(a, b, d); got != up {
			t.Fatalf("MulDivUp(%d, %d, %d) = %d, want %d", a, b, d, got, up)
		}
	})
}

func TestSaturation(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"shift of little", ShiftLeft(3, 20), 3 << 20},
		{"shift that just fits", ShiftLeft(1<<43, 20), 1 << 63},
		{"shift that does not", ShiftLeft(1<<44, 20), math.MaxUint64},
		{"less", Less(5, 3), 2},
		{"less than nothing", Less(3, 5), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.name, c.got, c.want)
		}
	}
}
