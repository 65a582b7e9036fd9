package memory

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/protolimit/ratelimit"
)

// grantedTwice charges each of n hourly keys once more, and returns how many of
// them are granted: they were forgotten while their charges counted.
func grantedTwice(t *testing.T, b *Backend, l *ratelimit.Limit, n int) (twice int) {
	t.Helper()
	for i := range n {
		if charge(t, b, l, fmt.Sprint("hourly", i), 1).Allowed {
			twice++
		}
	}
	return twice
}

// Nothing that counts is forgotten while the bound has room for all that does,
// however quickly the rest comes and goes.
func TestNothingThatCountsIsForgotten(t *testing.T) {
	for a := range ratelimit.SlidingLog {
		t.Run(a.String(), func(t *testing.T) {
			const hourly, crowd, n = 2000, 2000, 1 << 12
			clock := newHand()
			b := mustOpen(t, WithMaxKeys(n), WithClock(clock.now))
			slow, fast := limit(t, "b", "1/h", a, 0), limit(t, "c", "1/100ms", a, 0)
			for i := range hourly {
				charge(t, b, slow, fmt.Sprint("hourly", i), 1)
			}
			for round := range 30 {
				for i := range crowd {
					charge(t, b, fast, fmt.Sprint(round, " ", i), 1)
				}
				clock.us += 201_000 // two windows later, even SLIDING_WINDOW is empty
			}
			if twice := grantedTwice(t, b, slow, hourly); twice > 0 || b.Stats().Evictions > 0 {
				t.Errorf("%d keys are granted twice in their hour; %+v", twice, b.Stats())
			}
			checkInvariants(t, b, n, defaultMaxLogEntries)
		})
	}
}

// The same for the entries of logs, of which never more than three quarters of
// the bound count.
func TestNoEntryThatCountsIsForgotten(t *testing.T) {
	const hourly, n = 1000, 1 << 13
	clock := newHand()
	b := mustOpen(t, WithMaxLogEntries(n), WithClock(clock.now))
	slow, fast := limit(t, "b", "1/h", ratelimit.SlidingLog, 0), limit(t, "c", "1000/s", ratelimit.SlidingLog, 0)
	for i := range hourly {
		charge(t, b, slow, fmt.Sprint("hourly", i), 1)
	}
	for round := range 30 {
		for i := range 5 {
			for range 1000 {
				charge(t, b, fast, fmt.Sprint(round, " ", i), 1)
			}
		}
		if got := b.Stats().LogEntries; got < hourly+5000 {
			t.Fatalf("round %d: %d entries, want that none is merged", round, got)
		}
		clock.us += 1_010_000
	}
	if twice := grantedTwice(t, b, slow, hourly); twice > 0 || b.Stats().Evictions > 0 {
		t.Errorf("%d keys are granted twice in their hour; %+v", twice, b.Stats())
	}
	checkInvariants(t, b, defaultMaxKeys, n)
}

// Old entries of logs that still count make room, too.
func TestGoneEntriesMakeRoom(t *testing.T) {
	const logs, n = 100, 4096
	clock := newHand()
	b := mustOpen(t, WithMaxLogEntries(n), WithClock(clock.now))
	l := limit(t, "b", "100/h", ratelimit.SlidingLog, 0)
	// 30 entries each that are soon gone, and one that is not.
	for i := range logs {
		for range 30 {
			charge(t, b, l, fmt.Sprint("old", i), 1)
		}
	}
	clock.us += 3_000_000_000
	for i := range logs {
		charge(t, b, l, fmt.Sprint("old", i), 1)
	}
	clock.us += 1_000_000_000
	for i := range logs {
		for range 30 {
			charge(t, b, l, fmt.Sprint("new", i), 1)
		}
	}
	for i := range logs {
		if got := charge(t, b, l, fmt.Sprint("old", i), 0); got.Remaining != 99 {
			t.Fatalf("%d of the old logs: %+v, want 99 remaining", i, got)
		}
	}
	clock.us += 3_000_000_000
	// Were grants merged, they would all be gone or none.
	for i := range logs {
		if got := charge(t, b, l, fmt.Sprint("new", i), 0); got.Remaining != 70 {
			t.Fatalf("%d of the new logs: %+v, want 70 remaining", i, got)
		}
	}
	checkInvariants(t, b, defaultMaxKeys, n)
}

// A shard from which keys were taken as of a time decides as of that time, or a
// later one.
func TestOvertakenTimeOfPeers(t *testing.T) {
	b := mustOpen(t, WithMaxKeys(32), WithMaxLogEntries(2))
	if len(b.shards) != 2 {
		t.Fatalf("%d shards, want 2", len(b.shards))
	}
	s, peer := &b.shards[0], &b.shards[1]
	now := b.early()
	for i, w := range []*watch{&b.keys.watch, &b.log.watch} {
		tag, later := uint64(1)<<63+uint64(i)+1, now+int64(i+1)*3_600_000_000
		peer.appendLog(limit(t, "b", "1/s", ratelimit.SlidingLog, 0), tag, 1, now)
		if !s.reclaim(w, later) {
			t.Fatal("nothing idle is found")
		}
		if got := b.instant(peer, now); got != later {
			t.Errorf("instant = %d, want %d", got, later)
		}
	}
}

// Where all keys count for longer than was noted, for they were charged again, a
// search looks at so many slots at most. Several in a row find what there is, and
// look at nothing twice.
func TestSearchIsBounded(t *testing.T) {
	const n, minute = 1 << 17, 60_000_000
	clock := newHand()
	b := mustOpen(t, WithMaxKeys(n), WithClock(clock.now))
	slow, fast := limit(t, "b", "2/h", ratelimit.TokenBucket, 0), limit(t, "c", "1/s", ratelimit.TokenBucket, 0)
	for range 2 { // noted to be idle at 30 minutes, and then idle at 60
		for i := range n {
			charge(t, b, slow, strconv.Itoa(i), 1)
		}
		clock.us += 20 * minute
	}
	charge(t, b, fast, "idle soon", 1) // in the place of another
	clock.us += 5 * minute
	before := b.Stats().Evictions
	inserts := uint64(0)
	for ; b.Stats().Evictions == before+inserts; inserts++ {
		if inserts > n>>14 {
			t.Fatalf("%d keys are forgotten while one is idle", inserts)
		}
		charge(t, b, slow, fmt.Sprint("new", inserts), 1)
	}
	for _, most := range []int{2 * n, 0} {
		left := 3 * n
		for i := range b.shards {
			b.shards[i].collect(&b.keys.watch, clock.us, &left)
		}
		if looked := 3*n - left; looked > most {
			t.Errorf("%d slots are looked at, want at most %d", looked, most)
		}
	}
	for i := range b.shards {
		if due := b.keys.due[i].Load(); due <= clock.us {
			t.Errorf("shard %d is due at %d, after all was looked at at %d", i, due, clock.us)
		}
	}
	checkInvariants(t, b, n, defaultMaxLogEntries)
}

// Once nothing is due anywhere, nobody looks again before something is.
func TestWatch(t *testing.T) {
	var w watch
	w.init(bucketKind, 4)
	for _, step := range []struct {
		shard int // lowered
		at    int64
		now   int64
		found int // at a look at now, or -1
		quiet int64
	}{
		{0, 50, 10, -1, 50},
		{1, 40, 10, -1, 40}, // earlier than what was quiet
		{2, 60, 39, -1, 40},
		{2, 70, 40, 1, 40},
		{0, 45, 65, 2, 40}, // the next one after the last
		{3, 20, 65, 3, 0},
	} {
		w.lower(step.shard, step.at)
		found := -1
		w.look(step.now, func(shard int) (bool, bool) {
			found = shard
			w.due[shard].Store(100)
			return true, false
		})
		if found != step.found || w.quiet.Load() != step.quiet {
			t.Errorf("%+v: found %d, quiet until %d", step, found, w.quiet.Load())
		}
	}
	// What is lowered during a look, behind its back, is seen by the next one.
	w.lower(1, 80)
	w.look(90, func(shard int) (bool, bool) {
		w.due[shard].Store(100)
		if shard == 1 {
			w.lower(0, 95)
		}
		return false, false
	})
	if got := w.quiet.Load(); got > 95 {
		t.Errorf("quiet until %d while a shard is due at 95", got)
	}
}

// The oldest entry of a log goes when its window has passed, and into the pool.
func TestTrimTakesWhatIsGone(t *testing.T) {
	b := mustOpen(t, WithMaxKeys(32), WithMaxLogEntries(1000))
	s, peer := &b.shards[0], &b.shards[1]
	l := limit(t, "b", "5/s", ratelimit.SlidingLog, 0)
	for i := range int64(3) {
		peer.appendLog(l, 1<<63, 1, 1+i)
	}
	if s.reclaim(&b.log.watch, 1_000_000) {
		t.Error("an entry is gone before its window has passed")
	}
	if !s.reclaim(&b.log.watch, 1_000_001) || peer.slab.used != 2 || peer.slab.spares != 0 {
		t.Errorf("%d entries are left and %d set aside, want 2 and 0", peer.slab.used, peer.slab.spares)
	}
	if s.reclaim(&b.keys.watch, 1_000_001) {
		t.Error("a key is gone that has entries")
	}
	checkInvariants(t, b, 32, 1000)
}
