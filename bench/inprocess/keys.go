package inprocess

import (
	"math/rand/v2"
)

// keySize is the length of every key.
const keySize = 24

// A keys is many keys in one piece of memory. Read in order they come from the
// cache, so that what is measured is the state that they lead to. A server has
// just built its key when it asks.
type keys []byte

// newKeys returns n different keys. Equal seeds give equal keys.
func newKeys(n int, seed uint64) keys {
	k := make(keys, n*keySize)
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = source.Read(k) // never fails
	return k
}

// at returns key i.
func (k keys) at(i int) []byte { return k[i*keySize : (i+1)*keySize : (i+1)*keySize] }

// traceLength is how many draws of keys are prepared: enough that nearly all of
// a million keys are among them.
const traceLength = 1 << 22

// draw returns n keys of k, each the one whose number pick tells.
func (k keys) draw(n int, pick func() int) keys {
	drawn := make(keys, 0, n*keySize)
	for range n {
		drawn = append(drawn, k.at(pick())...)
	}
	return drawn
}

// uniform draws all keys alike often.
func (k keys) uniform(n int) keys {
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a benchmark that repeats itself
	return k.draw(n, func() int { return r.IntN(len(k) / keySize) })
}

// zipfExponent is that of the Zipf distribution: the key of rank r is drawn
// r^-1.1 as often as the first. One call in seven goes to the first of a million.
const zipfExponent = 1.1

// zipf draws few keys often and most rarely.
func (k keys) zipf(n int) keys {
	r := rand.New(rand.NewPCG(2, 2)) //nolint:gosec // a benchmark that repeats itself
	z := rand.NewZipf(r, zipfExponent, 1, uint64(len(k)/keySize-1))
	return k.draw(n, func() int { return int(z.Uint64()) })
}

// A cursor walks over keys without end.
type cursor struct {
	keys keys
	at   int
}

// cursors returns n cursors over the same keys, spread over them.
func (k keys) cursors(n int) []*cursor {
	all := make([]*cursor, n)
	for i := range all {
		all[i] = &cursor{k, len(k) / keySize * i / n * keySize}
	}
	return all
}

// next returns the key under the cursor, and moves it.
func (c *cursor) next() []byte {
	key := c.keys[c.at : c.at+keySize : c.at+keySize]
	if c.at += keySize; c.at == len(c.keys) {
		c.at = 0
	}
	return key
}
