package memory

import (
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

// What is packed comes out again, and is idle when it is empty: not before, and
// not much later.
func TestPackBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := anySize(53).Draw(t, "level")
		shift := rapid.SampledFrom([]uint8{coarseStep, fineStep}).Draw(t, "shift")
		at := int64(anySize(53).Draw(t, "at"))
		empty := anySize(64).Draw(t, "empty")
		w1, w2 := packBucket(level, shift, at, empty)
		if gotLevel, gotAt := unpackBucket(w1, w2, shift); gotLevel != level || gotAt != at {
			t.Fatalf("level %d at %d, want %d at %d", gotLevel, gotAt, level, at)
		}
		exact := at + int64(min(empty, maxTime))
		if got := bucketIdleAt(w1, w2); got <= exact-1 || got > exact+int64(empty/512)+1 {
			t.Fatalf("idle at %d, want %d or a little later", got, exact)
		}
	})
}

func TestUnpackBucketConverts(t *testing.T) {
	for _, c := range []struct {
		level    uint64
		from, to uint8
		want     uint64
	}{
		{5 << fineStep, fineStep, coarseStep, 5 << coarseStep},
		{5<<fineStep + 1, fineStep, coarseStep, 5<<coarseStep + 1}, // rounded up
		{5 << coarseStep, coarseStep, fineStep, 5 << fineStep},
		{1 << 43, coarseStep, fineStep, maxCount}, // which stops at what fits
		{maxCount, coarseStep, fineStep, maxCount},
		{0, fineStep, coarseStep, 0},
	} {
		w1, w2 := packBucket(c.level, c.from, 1, 1)
		if got, _ := unpackBucket(w1, w2, c.to); got != c.want {
			t.Errorf("%d from 2^-%d to 2^-%d units = %d, want %d", c.level, c.from, c.to, got, c.want)
		}
	}
}

func TestWindowIdleAt(t *testing.T) {
	const length = 1_000_000
	for _, c := range []struct {
		name    string
		w       window
		sliding uint64
		want    int64
	}{
		{"fixed", window{current: 1, at: 5_300_000, length: length}, 0, 6_000_000},
		{"fixed, given back", window{at: 5_300_000, length: length}, 0, 5_000_000},
		{"sliding", window{current: 1, at: 5_300_000, length: length}, 1, 7_000_000},
		{"sliding, only the window before", window{previous: 1, at: 5_300_000, length: length}, 1, 6_000_000},
		{"sliding, given back", window{at: 5_300_000, length: length}, 1, 5_000_000},
	} {
		words := make([]uint64, 5)
		c.w.pack(words, c.sliding)
		if got := unpackWindow(words); got != c.w {
			t.Errorf("%s: unpacked %+v, want %+v", c.name, got, c.w)
		}
		if got := windowKind.idleAt(words, 0); got != c.want {
			t.Errorf("%s: idle at %d, want %d", c.name, got, c.want)
		}
	}
}
