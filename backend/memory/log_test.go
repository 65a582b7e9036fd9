package memory

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// Past the bound of entries, a log merges its newest ones: it forgets nothing,
// and is only ever too strict.
func TestMaxLogEntriesMerges(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithMaxLogEntries(3), WithClock(clock.now))
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	for i := range 5 {
		v := charge(t, b, l, "key", 1)
		if !v.Allowed || v.Remaining != int64(4-i) {
			t.Fatalf("charge %d: %+v, want it allowed", i, v)
		}
		clock.us += 100_000
	}
	if got := b.Stats(); got.LogEntries != 3 || got.Evictions != 0 {
		t.Errorf("%+v, want 3 entries and no evictions", got)
	}
	// Granted at 0, 100, 200, 300 and 400 ms; the last three count as at 400.
	for _, step := range []struct {
		at        time.Duration
		remaining int64
	}{{999, 0}, {1000, 1}, {1100, 2}, {1399, 2}, {1400, 5}} {
		clock.us = firstInstant + int64(step.at)*1000
		if got := charge(t, b, l, "key", 0); got.Remaining != step.remaining {
			t.Errorf("at %d ms: %+v, want %d remaining", step.at, got, step.remaining)
		}
	}
	checkInvariants(t, b, 31, 3)
}

// A log that has no entry yet takes the place of an idle one, or else of the one
// that is idle first.
func TestMaxLogEntriesForgets(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithMaxLogEntries(3), WithClock(clock.now))
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	for i := range 4 {
		charge(t, b, l, strconv.Itoa(i), 1)
		clock.us += 100_000
	}
	for i, want := range []int64{5, 4, 4, 4} {
		if got := charge(t, b, l, strconv.Itoa(i), 0); got.Remaining != want {
			t.Errorf("key %d: %+v, want %d remaining", i, got, want)
		}
	}
	if got := b.Stats(); got.Evictions != 1 || got.LogEntries != 3 {
		t.Errorf("%+v, want 1 eviction", got)
	}
	clock.us += 10_000_000
	for i := range 3 {
		charge(t, b, l, fmt.Sprint("new", i), 1)
	}
	if got := b.Stats(); got.Evictions != 1 || got.LogEntries != 3 {
		t.Errorf("%+v, want no more evictions", got)
	}
	checkInvariants(t, b, 31, 3)
}

// A receipt gives back once, to the log that it came from, and nothing when its
// entry is another's.
func TestLogReceipts(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithClock(clock.now))
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	giveBack := func(key string, r ratelimit.Receipt) {
		t.Helper()
		d := ratelimit.Delta{Limit: l, Key: []byte(key), Cost: 2, Units: -2, Receipt: r}
		if err := b.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, b, 31, defaultMaxLogEntries)
	}
	remaining := func(key string, want int64) {
		t.Helper()
		if got := charge(t, b, l, key, 0); got.Remaining != want {
			t.Errorf("%q: %+v, want %d remaining", key, got, want)
		}
	}
	first := charge(t, b, l, "key", 2).Receipt
	other := charge(t, b, l, "other", 2).Receipt
	giveBack("key", other)
	giveBack("none", other)
	remaining("key", 3)
	remaining("other", 3)
	giveBack("key", first)
	remaining("key", 5)
	second := charge(t, b, l, "key", 2).Receipt // in the place of the first
	giveBack("key", first)
	remaining("key", 3)
	clock.us += 1_000_000
	charge(t, b, l, "key", 2)
	giveBack("key", second)
	remaining("key", 3)
	giveBack("other", other)
	remaining("other", 5)
}

// A receipt whose entry a later charge was merged into gives nothing back: how
// much of the entry was its own is not known any more.
func TestLogReceiptOfMergedEntry(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithMaxLogEntries(1), WithClock(clock.now))
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	first := charge(t, b, l, "key", 2)
	clock.us += 100_000
	second := charge(t, b, l, "key", 1)
	for _, step := range []struct {
		granted   ratelimit.Verdict
		cost      int64
		remaining int64
	}{{first, 2, 2}, {second, 1, 3}} {
		d := ratelimit.Delta{Limit: l, Key: []byte("key"), Cost: step.cost, Units: -step.cost, Receipt: step.granted.Receipt}
		if err := b.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
			t.Fatal(err)
		}
		if got := charge(t, b, l, "key", 0); got.Remaining != step.remaining {
			t.Errorf("%+v given back: %+v, want %d remaining", step.granted.Receipt, got, step.remaining)
		}
	}
	checkInvariants(t, b, 31, 1)
}

// Charging more, again and again, does not make a log longer than its decisions
// have time for.
func TestAdjustKeepsLogsShort(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithClock(clock.now))
	l := limit(t, "b", "10000/h", ratelimit.SlidingLog, 0)
	const adjustments = ratelimit.MaxLogCount + 500
	deltas := []ratelimit.Delta{{Limit: l, Key: []byte("key"), Units: 1}}
	for range adjustments {
		if err := b.Adjust(context.Background(), deltas); err != nil {
			t.Fatal(err)
		}
		clock.us++
	}
	if got := b.Stats().LogEntries; got != ratelimit.MaxLogCount {
		t.Errorf("%d entries, want %d", got, ratelimit.MaxLogCount)
	}
	// The newest one has the surplus, and counts from its last adjustment on.
	clock.us = firstInstant + 3_600_000_000 + ratelimit.MaxLogCount - 2
	if got := charge(t, b, l, "key", 0); got.Remaining != ratelimit.MaxLogCount-501 {
		t.Errorf("%+v, want all but the last 501 to be gone", got)
	}
	clock.us = firstInstant + 3_600_000_000 + adjustments - 1
	if got := charge(t, b, l, "key", 0); got.Remaining != ratelimit.MaxLogCount {
		t.Errorf("%+v, want all to be gone", got)
	}
	checkInvariants(t, b, 31, defaultMaxLogEntries)
}

// However entries come and go, those that stay for long keep no more memory than
// the bound says.
func TestLogMemoryIsBounded(t *testing.T) {
	const n = 1 << 15
	clock := newHand()
	b := mustOpen(t, WithMaxLogEntries(n), WithClock(clock.now))
	slow, fast := limit(t, "b", "10/366d", ratelimit.SlidingLog, 0), limit(t, "c", "10000/s", ratelimit.SlidingLog, 0)
	for round := range 6 {
		for i := range 30_000 {
			if i%300 == 0 {
				charge(t, b, slow, strconv.Itoa(round*100+i/300), 1)
			}
			charge(t, b, fast, strconv.Itoa(round*3+i%3), 1)
		}
		clock.us += 1_000_000
	}
	got := b.Stats()
	// Besides the entries there are the tables of 128 shards.
	if tables := 1 << 20; got.Bytes > n*32+tables || got.Evictions != 0 {
		t.Errorf("%+v, want at most %d bytes and no evictions", got, n*32+tables)
	}
	checkInvariants(t, b, defaultMaxKeys, n)
}

// The smallest bound leaves each shard one entry.
func TestMaxLogEntriesIsOneAShard(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxLogEntries(1), WithClock(clock.now))
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	for i := range 5000 {
		charge(t, b, l, strconv.Itoa(i), 1)
	}
	if got := b.Stats(); got.LogEntries != len(b.shards) {
		t.Errorf("%+v, want %d entries", got, len(b.shards))
	}
	checkInvariants(t, b, defaultMaxKeys, 1)
}

// The memory of entries goes with the last of them, but for a chunk.
func TestLogMemoryIsGivenBack(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithClock(clock.now))
	l := limit(t, "b", "10000/s", ratelimit.SlidingLog, 0)
	empty := b.Stats().Bytes
	for range 10_000 {
		charge(t, b, l, "key", 1)
	}
	if got := b.Stats(); got.LogEntries != 10_000 || got.Bytes < empty+10_000*32 {
		t.Errorf("%+v, want 10000 entries of 32 bytes", got)
	}
	clock.us += 1_000_000
	charge(t, b, l, "key", 1)
	if got := b.Stats(); got.LogEntries != 1 || got.Bytes > empty+chunkEntries*32+1_000 {
		t.Errorf("%+v, want 1 entry", got)
	}
	checkInvariants(t, b, 31, defaultMaxLogEntries)
}

// Making room for an entry does not free the log that it is for, which was idle
// under the shorter window of before.
func TestMaxLogEntriesKeepsItsOwn(t *testing.T) {
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithMaxLogEntries(3), WithClock(clock.now))
	for range 3 {
		charge(t, b, limit(t, "b", "5/s", ratelimit.SlidingLog, 0), "key", 1)
	}
	clock.us += 2_000_000
	got := charge(t, b, limit(t, "b", "5/h", ratelimit.SlidingLog, 0), "key", 1)
	if !got.Allowed || got.Remaining != 1 {
		t.Errorf("%+v, want it allowed with 1 remaining", got)
	}
	checkInvariants(t, b, 31, 3)
}

// The entries of idle logs are free again when their table grows.
func TestIdleLogsAreFreed(t *testing.T) {
	const keys = 1 << 20
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(31), WithClock(clock.now))
	b.keys.left.Store(keys - 1) // one shard for many keys
	slow, fast := limit(t, "b", "5/h", ratelimit.SlidingLog, 0), limit(t, "c", "5/s", ratelimit.SlidingLog, 0)
	for i := range 10_000 {
		l := slow
		if i%50 == 0 {
			l = fast
		}
		charge(t, b, l, strconv.Itoa(i), 1)
		clock.us += 3_000
	}
	checkInvariants(t, b, keys, defaultMaxLogEntries)
}
