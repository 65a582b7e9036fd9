package goredis_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// A mixture makes calls of all kinds, at random.
type mixture struct {
	t      *testing.T
	b      ratelimit.Backend
	random *rand.Rand
	limits []*ratelimit.Limit
	past   []ratelimit.Delta // what may be given back
}

func newMixture(t *testing.T, b ratelimit.Backend) *mixture {
	t.Helper()
	m := &mixture{t: t, b: b, random: rand.New(rand.NewPCG(1, 2))}
	for _, a := range algorithms {
		// The same bucket under other numbers is converted. The last has products
		// that a double does not hold.
		for _, rate := range []ratelimit.Rate{
			{Count: 5, Window: time.Second}, {Count: 7, Window: time.Minute}, {Count: 9999, Window: 366 * 24 * time.Hour},
		} {
			m.limits = append(m.limits, limitOf(t, "mixed", a, rate.Count, rate.Window))
		}
		m.limits = append(m.limits, limitOf(t, "other", a, 3, 3*time.Second))
	}
	return m
}

// call makes one call, of one to five charges on keys of the same caller or of
// several.
func (m *mixture) call() ([]ratelimit.Charge, []ratelimit.Verdict) {
	var charges []ratelimit.Charge
	for range 1 + m.random.IntN(5) {
		charges = append(charges, ratelimit.Charge{
			Limit: m.limits[m.random.IntN(len(m.limits))],
			Key:   []byte{'k', byte('0' + m.random.IntN(3))},
			Cost:  m.random.Int64N(3),
		})
	}
	verdicts := mustTake(m.t, m.b, charges...)
	for i, v := range verdicts {
		if v.Receipt.At != 0 {
			c := charges[i]
			m.past = append(m.past, ratelimit.Delta{
				Limit: c.Limit, Key: c.Key, Cost: c.Cost, Units: m.random.Int64N(4) - 2, Receipt: v.Receipt,
			})
		}
	}
	return charges, verdicts
}

// adjust changes what some earlier calls cost.
func (m *mixture) adjust() {
	n := min(m.random.IntN(4), len(m.past))
	if err := m.b.Adjust(m.t.Context(), m.past[len(m.past)-n:]); err != nil {
		m.t.Fatalf("Adjust: %v", err)
	}
	m.past = m.past[:len(m.past)-n]
}
