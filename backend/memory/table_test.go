package memory

import (
	"maps"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A table keeps what a map keeps, whatever comes, goes and falls idle, until it
// is idle.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		backend := mustOpen(t, WithMaxKeys(1<<12))
		s := &backend.shards[0]
		tb := &s.tables[bucketKind]
		want := map[uint64]int64{} // when each tag falls idle
		now := int64(1)
		// Tags of this shard, many of them neighbours.
		tags := rapid.Custom(func(t *rapid.T) uint64 {
			high := rapid.Uint64Range(0, 3).Draw(t, "high") << 40
			return (high|rapid.Uint64Range(1, 400).Draw(t, "low"))<<8&(1<<backend.shift-1) | 1
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "puts") {
					tag, empty := tags.Draw(t, "tag"), rapid.Uint64Range(1, 1000).Draw(t, "empty")
					pos := s.place(tb, tag, now)
					tb.words[pos+1], tb.words[pos+2] = packBucket(7, fineStep, now, empty)
					tb.note(pos)
					want[tag] = bucketIdleAt(tb.words[pos+1], tb.words[pos+2])
				}
			},
			"remove": func(t *rapid.T) {
				tag := tags.Draw(t, "tag")
				if pos, found := tb.find(tag); found {
					s.recount(func() { tb.remove(pos) })
				}
				delete(want, tag)
			},
			"wait":  func(t *rapid.T) { now += rapid.Int64Range(0, 300).Draw(t, "µs") },
			"sweep": func(*rapid.T) { s.recount(func() { tb.sweep(now) }) },
			"collect": func(t *rapid.T) {
				before := tb.live(now) < tb.used
				left := rapid.IntRange(1, 2*searchSlots).Draw(t, "left")
				found := s.collect(&s.keys.watch, now, &left)
				if found != before && left > 0 {
					t.Fatalf("collect = %v with %d idle keys", found, tb.used-tb.live(now))
				}
			},
			"tidy": func(*rapid.T) { s.recount(func() { tb.tidy(now) }) },
			"": func(t *rapid.T) {
				checkInvariants(t, backend, 1<<12, defaultMaxLogEntries)
				maps.DeleteFunc(want, func(_ uint64, idleAt int64) bool { return idleAt <= now })
				for tag, idleAt := range want {
					pos, found := tb.find(tag)
					if !found || bucketIdleAt(tb.words[pos+1], tb.words[pos+2]) != idleAt {
						t.Fatalf("%x, idle at %d, is lost at %d", tag, idleAt, now)
					}
				}
				if got := tb.live(now); got != len(want) {
					t.Fatalf("%d keys are not idle, want %d", got, len(want))
				}
			},
		})
	})
}

// Tags that all want to stand at the end of a table make it longer.
func TestTableEnd(t *testing.T) {
	backend := mustOpen(t, WithMaxKeys(1<<12))
	s := &backend.shards[0]
	tb := &s.tables[bucketKind]
	for tag := uint64(1); tag <= 300; tag++ { // small tags have the last home
		pos := s.place(tb, tag, 1)
		tb.words[pos+1], tb.words[pos+2] = packBucket(1, fineStep, 1, 1000)
		tb.note(pos)
		checkInvariants(t, backend, 1<<12, defaultMaxLogEntries)
	}
	if tb.used != 300 {
		t.Fatalf("%d keys, want 300", tb.used)
	}
}

// A table that was full once is given back when few keys are in use for long.
func TestTableShrinks(t *testing.T) {
	backend := mustOpen(t, WithMaxKeys(31))
	s := &backend.shards[0]
	s.keys.left.Store(1 << 20)
	tb := &s.tables[bucketKind]
	r := rand.New(rand.NewPCG(1, 2))
	put := func(now int64) {
		pos := s.place(tb, r.Uint64()|1, now)
		tb.words[pos+1], tb.words[pos+2] = packBucket(1, fineStep, now, 100)
		tb.note(pos)
	}
	for range 10_000 {
		put(1)
	}
	large := len(tb.words)
	if tb.used != 10_000 {
		t.Fatalf("%d keys, want 10000", tb.used)
	}
	for now := range int64(300_000) { // 100 at a time are not idle
		put(1_000 + now)
	}
	if len(tb.words)*8 > large {
		t.Errorf("%d words after %d, want an eighth at most", len(tb.words), large)
	}
}
