package memory

import "math/bits"

// A slot of a table is a few words: the tag of its key, and the state, packed.
// Nobody knows a slot's limit but the caller who charges it, so a state tells by
// itself when it will be empty of charges under the limit that it was stored
// with. From then on the slot is idle, and the next new key that comes by may
// have it. A caller who finds his state before that happens reads it under his
// own limit, which may drain more slowly: being idle is a reason to give the slot
// away, never a reason to ignore the state.
type kind uint8

const (
	bucketKind kind = iota // TOKEN_BUCKET, LEAKY_BUCKET
	windowKind             // FIXED_WINDOW, SLIDING_WINDOW
	logKind                // SLIDING_LOG
	kinds
)

// strides is how many words the slots of each kind have.
var strides = [kinds]int{bucketKind: 3, windowKind: 5, logKind: 5}

// idleAt returns when the state that follows the tag at words[pos] is empty of
// charges, in µs since 1970, not too early.
func (k kind) idleAt(words []uint64, pos int) int64 {
	switch k {
	case bucketKind:
		return bucketIdleAt(words[pos+1], words[pos+2])
	case windowKind:
		return windowIdleAt(words[pos : pos+5])
	default:
		return int64(words[pos+4])
	}
}

// dueAt returns when something of the state that follows the tag at words[pos]
// counts no more, not too early: the oldest entry of a log, all of another.
func (k kind) dueAt(words []uint64, pos int) int64 {
	at := k.idleAt(words, pos)
	if k == logKind {
		at -= int64(words[pos+2] >> countBits)
	}
	return at
}

// The words of a bucket:
//
//	level 53 | coarse steps 1 | unused 4 | exponent 6
//	time 53 | mantissa 11
//
// mantissa << exponent is the time until the bucket is empty, in µs, rounded up
// by less than one in 2^9.
const (
	levelShift   = 11
	coarseBit    = 1 << 10
	exponentMask = 1<<6 - 1
	mantissaBits = 11
	mantissaMask = 1<<mantissaBits - 1

	coarseStep   = 10 // binary logarithms of steps a unit
	fineStep     = 20
	coarseToFine = fineStep - coarseStep
)

// packBucket returns the words of a bucket with a level in steps of 2^-shift
// units at a time, empty after some µs more.
func packBucket(level uint64, shift uint8, at int64, empty uint64) (w1, w2 uint64) {
	// One bit less than there is room for, so that rounding up never overflows.
	empty = min(empty, maxTime)
	exponent := bits.Len64(empty>>(mantissaBits-1)) & exponentMask
	mantissa := empty>>exponent + 1
	w1 = level<<levelShift | uint64(exponent)
	if shift == coarseStep {
		w1 |= coarseBit
	}
	return w1, uint64(at)<<mantissaBits | mantissa
}

// unpackBucket returns the level in steps of 2^-shift units, converted if it was
// stored in others, and its time.
func unpackBucket(w1, w2 uint64, shift uint8) (level uint64, at int64) {
	level = w1 >> levelShift
	coarse := w1&coarseBit != 0
	switch {
	case coarse && shift == fineStep:
		level = min(level<<coarseToFine, maxCount)
	case !coarse && shift == coarseStep:
		level = (level + 1<<coarseToFine - 1) >> coarseToFine
	}
	return level, int64(w2 >> mantissaBits)
}

func bucketIdleAt(w1, w2 uint64) int64 {
	return int64(w2>>mantissaBits + w2&mantissaMask<<(w1&exponentMask))
}

// A window is the state of FIXED_WINDOW and SLIDING_WINDOW as it was stored.
// FIXED_WINDOW has no previous count.
type window struct {
	current, previous uint64 // counts of the window that holds at, and of the one before
	at                int64  // the last change, µs since 1970
	length            int64  // µs
}

// The words of a window: current, previous, at, length << 1 | sliding.
func (w *window) pack(words []uint64, sliding uint64) {
	words[1], words[2], words[3], words[4] = w.current, w.previous, uint64(w.at), uint64(w.length)<<1|sliding
}

func unpackWindow(words []uint64) window {
	return window{current: words[1], previous: words[2], at: int64(words[3]), length: int64(words[4] >> 1)}
}

func windowIdleAt(words []uint64) int64 {
	w := unpackWindow(words)
	idleAt := w.at - w.at%w.length
	if w.current > 0 {
		idleAt += w.length
	}
	if words[4]&1 == 1 && w.current|w.previous != 0 {
		idleAt += w.length
	}
	return idleAt
}

// A log is the state of SLIDING_LOG; its entries are in the arena.
type log struct {
	used       uint64 // the sum of the entries' costs
	count      int    // entries, to 10,000
	head, tail uint32 // oldest and newest entry
	idleAt     int64  // µs since 1970
	span       int64  // µs from the oldest entry to the newest, less than 2^45
}

// The words of a log: used, span 48 | count 16, head 32 | tail 32, idleAt.
func (l log) pack(words []uint64) {
	words[1] = l.used
	words[2] = uint64(l.span)<<countBits | uint64(l.count)
	words[3] = uint64(l.head)<<32 | uint64(l.tail)
	words[4] = uint64(l.idleAt)
}

const countBits = 16

func unpackLog(words []uint64) log {
	return log{
		used:   words[1],
		count:  int(words[2] & (1<<countBits - 1)),
		head:   uint32(words[3] >> 32),
		tail:   uint32(words[3]),
		idleAt: int64(words[4]),
		span:   int64(words[2] >> countBits),
	}
}
