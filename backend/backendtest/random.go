package backendtest

import "math/rand/v2"

// random returns a generator that gives the same numbers for the same arguments.
func random(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // a seed has to reproduce the test
}

// newSeed returns another seed each time.
func newSeed() uint64 {
	return rand.Uint64() //nolint:gosec // nothing is secret here
}

// pick returns one of values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }
