package goredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/arith"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// TestLevelsChangeTheirForm: a level goes from the short form to the long one and
// back, by calls that are alone, by batches and by adjustments, and nothing of it is
// lost, nor its expiry.
func TestLevelsChangeTheirForm(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, together := range []bool{false, true} {
		b, err := New(client, WithBudget(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		// So slow that nothing drains while the test runs.
		large := limit(t, fmt.Sprint("form", together), 10_000, 366*24*time.Hour)
		used, size := int64(0), int64(0)
		charged := func(units, want int64) {
			t.Helper()
			c := charge(large, "alice", units)[0]
			if together {
				decideTogether(t, b, c, charge(large, "bob", 1)[0])
			} else if err := b.Take(t.Context(), []ratelimit.Charge{c}, make([]ratelimit.Verdict, 1)); err != nil {
				t.Fatal(err)
			}
			used, size = used+units, want
		}
		check := func() {
			t.Helper()
			verdicts := make([]ratelimit.Verdict, 1)
			if err := b.Take(t.Context(), charge(large, "alice", 0), verdicts); err != nil {
				t.Fatal(err)
			}
			key := string(appendKey(nil, b.namespace, large, []byte("alice")))
			left, ttl := verdicts[0].Remaining, client.PTTL(t.Context(), key).Val()
			if n := client.StrLen(t.Context(), key).Val(); left != 10_000-used || n != size || ttl < verdicts[0].ResetAfter-time.Second {
				t.Errorf("together %t, %d used: %d are left in %d bytes, want %d in %d; the key has %v, and is full in %v",
					together, used, left, n, 10_000-used, size, ttl, verdicts[0].ResetAfter)
			}
		}
		charged(1, shortSize)
		check()
		charged(2046, shortSize)
		check()
		charged(2, longSize)
		check()
		charged(4999, longSize)
		check()
		d := ratelimit.Delta{Limit: large, Key: []byte("alice"), Cost: 7000, Units: -6000, Receipt: ratelimit.Receipt{At: time.Now().Add(time.Hour).UnixMicro()}}
		if err := b.Adjust(t.Context(), []ratelimit.Delta{d}); err != nil {
			t.Fatal(err)
		}
		used, size = used-6000, shortSize
		check()
		charged(1, shortSize)
		check()
	}
}

// TestRepliesOfAnyShape: a reply that no script of ours returns fails its calls and
// does not panic.
func TestRepliesOfAnyShape(t *testing.T) {
	l := limit(t, "shape", 10, time.Hour)
	scripts := map[string]*script{"bucket": bucketScript, "buckets": bucketsScript, "take": takeScript}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"bucket", "buckets", "take"}).Draw(t, "script")
		b := newBatch()
		b.script = scripts[name]
		requests := 1
		if name != "bucket" {
			requests = rapid.IntRange(1, 3).Draw(t, "requests")
		}
		for i := range requests {
			r := newRequest()
			r.add(strconv.Itoa(i), &ratelimit.Charge{Limit: l, Cost: int64(i)})
			b.add(r)
		}
		head := rapid.SampledFrom([]string{"", "+s", "+l", "-0", "!!", "??", "12345678", "12345678+s123456789012"}).Draw(t, "head")
		reply := head + string(rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "rest"))
		b.read(reply)
		for _, r := range b.requests {
			for i := range r.buckets {
				if v := r.buckets[i].verdict; r.err == nil && (v.Remaining < 0 || v.ResetAfter < 0) && name != "take" {
					t.Fatalf("%q: %+v", reply, v)
				}
			}
		}
	})
	for name, s := range scripts {
		for _, reply := range []string{"", "x", "12345678x", "12345678+s", "12345678+s12345678901", "12345678+x", strings.Repeat("1", 26)} {
			b := newBatch()
			b.script = s
			r := newRequest()
			r.add("k", &charge(l, "k", 1)[0])
			b.add(r)
			b.read(reply)
			if r.err == nil {
				t.Errorf("%s: %q is taken for a reply", name, reply)
			}
		}
	}
}

// TestLostExpiryOfALevelThatIsKept: a call that is alone restores an expiry that was
// lost, also where it would have kept it.
func TestLostExpiryOfALevelThatIsKept(t *testing.T) {
	client := redistest.Start(t).Client()
	b, err := New(client, WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l, other := limit(t, "lost", 1_000_000, 24*time.Hour), limit(t, "lost too", 1_000_000, 24*time.Hour)
	for _, charges := range [][]ratelimit.Charge{charge(l, "alice", 1), append(charge(l, "alice", 1), charge(other, "alice", 1)...)} {
		for i := range 4 {
			if err := b.Take(context.Background(), charges, make([]ratelimit.Verdict, len(charges))); err != nil {
				t.Fatal(err)
			}
			for _, c := range charges {
				key := string(appendKey(nil, b.namespace, c.Limit, c.Key))
				if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
					t.Errorf("call %d: %s has %v to live", i, key, ttl)
				}
				client.Persist(t.Context(), key)
			}
		}
	}
}

// TestFormShrinksUnderAKeptExpiry: the short form is not written over the head of
// the long one when a level has drained.
func TestFormShrinksUnderAKeptExpiry(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, together := range []bool{false, true} {
		b, err := New(client, WithBudget(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		// A unit drains in 6 ms, and moves the expiry, a multiple of a second, by that.
		l := limit(t, fmt.Sprint("kept", together), 10_000, time.Minute)
		key := string(appendKey(nil, b.namespace, l, []byte("alice")))
		charged := func(units int64) {
			t.Helper()
			c := charge(l, "alice", units)
			if together {
				decideTogether(t, b, c[0], charge(l, "bob", 1)[0])
			} else if err := b.Take(t.Context(), c, make([]ratelimit.Verdict, 1)); err != nil {
				t.Fatal(err)
			}
		}
		used := func() int64 {
			t.Helper()
			verdicts := make([]ratelimit.Verdict, 1)
			if err := b.Take(t.Context(), charge(l, "alice", 0), verdicts); err != nil {
				t.Fatal(err)
			}
			return 10_000 - verdicts[0].Remaining
		}
		charged(2060)
		if n := client.StrLen(t.Context(), key).Val(); n != longSize {
			t.Errorf("a state of %d bytes, want %d", n, longSize)
		}
		redistest.Eventually(t, 10*time.Second, "the level to drain", func() bool { return used() < 2040 })
		charged(1)
		if n, left := client.StrLen(t.Context(), key).Val(), used(); n != shortSize || left > 2041 || left < 1 {
			t.Errorf("together %t: %d are used, in a state of %d bytes, want below 2042 in %d", together, left, n, shortSize)
		}
	}
}

// TestStoredLevelsAreExact: what is stored is what exact arithmetic says, also where
// the products do not fit a double.
func TestStoredLevelsAreExact(t *testing.T) {
	var limits []*ratelimit.Limit
	for _, r := range []ratelimit.Rule{
		{Rate: ratelimit.Rate{Count: 7, Window: time.Minute}},
		{Rate: ratelimit.Rate{Count: 999_999_937, Window: time.Hour}, Burst: 4_000_000_000},
		{Rate: ratelimit.Rate{Count: 7_777_777, Window: 366 * 24 * time.Hour}},
		{Rate: ratelimit.Rate{Count: 999_999_999, Window: time.Second}, Burst: 1_000_000_000_000},
	} {
		l, err := ratelimit.NewLimit("exact", r)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	client := redistest.Shared(t).Client()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		now := int64(1_796_056_030_073_506)
		b, err := New(client, WithClock(func() time.Time { return time.UnixMicro(now) }), WithBudget(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close() //nolint:errcheck // it closes nothing
		caller := fmt.Sprint("caller ", round)
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		stored := func(now int64) level {
			s := client.Get(context.Background(), string(appendKey(nil, b.namespace, l, []byte(caller)))).Val()
			if s == "" {
				return level{}
			}
			return levelAt(s, l, now)
		}
		for range 15 {
			if rapid.IntRange(0, 9).Draw(t, "another") == 0 {
				l = rapid.SampledFrom(limits).Draw(t, "limit")
			}
			num, den := l.Drain()
			full := arith.MulDiv(uint64(l.Most())<<l.Shift(), den, num)
			now += int64(full)/rapid.Int64Range(2, 50).Draw(t, "full time ÷") + rapid.Int64Range(0, 1000).Draw(t, "more µs")
			units := max(l.Most()/rapid.Int64Range(1, 30).Draw(t, "burst ÷"), 1)
			want := stored(now).now(l) + uint64(units)<<l.Shift()
			charges := charge(l, caller, units)
			if rapid.Bool().Draw(t, "of two") {
				charges = append(charges, charge(l, "nobody", 0)...)
			}
			verdicts := make([]ratelimit.Verdict, len(charges))
			if err := b.Take(context.Background(), charges, verdicts); err != nil {
				t.Fatal(err)
			}
			if got := stored(now); verdicts[0].Allowed != (want <= uint64(l.Most())<<l.Shift()) || verdicts[0].Allowed && got.stored != want {
				t.Fatalf("%d of %v: %+v, stored is %d, want %d", units, l, verdicts[0], got.stored, want)
			}
		}
	})
}

// TestExpiryAfterTheClockSteppedBack: what was kept of an expiry is not read as a
// later one when the clock is behind the time of a state.
func TestExpiryAfterTheClockSteppedBack(t *testing.T) {
	client := redistest.Start(t).Client()
	b, err := New(client, WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := limit(t, "back", 1000, 1000*time.Second)
	for _, others := range []int{0, 1} {
		caller := fmt.Sprint("caller ", others)
		key := string(appendKey(nil, b.namespace, l, []byte(caller)))
		say := func(units int64) {
			t.Helper()
			charges := charge(l, caller, units)
			if others > 0 {
				charges = append(charges, charge(l, "nobody", 0)...)
			}
			verdicts := make([]ratelimit.Verdict, len(charges))
			if err := b.Take(t.Context(), charges, verdicts); err != nil {
				t.Fatal(err)
			}
			if ttl, full := client.PTTL(t.Context(), key).Val(), verdicts[0].ResetAfter; ttl < full-time.Second {
				t.Errorf("%d others, %d units: the key has %v, and is full in %v", others, units, ttl, full)
			}
		}
		say(10)
		// As if Redis's clock were 48 seconds behind now: the state's time and its
		// expiry are later by that.
		s := []byte(client.Get(t.Context(), key).Val())
		at := number48(string(s)) + 48_000_000
		for i := range 6 {
			s[i] = byte(at >> (8 * i))
		}
		client.Set(t.Context(), key, s, client.PTTL(t.Context(), key).Val()+48*time.Second)
		say(45)
		say(15)
	}
}

// TestLevelOfExactlyTheLongForm: 2048 units are the first that the short form does
// not hold.
func TestLevelOfExactlyTheLongForm(t *testing.T) {
	now := time.UnixMicro(1_796_056_030_073_506)
	b, err := New(redistest.Shared(t).Client(), WithBudget(10*time.Second), WithClock(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := limit(t, "exactly", 10_000, time.Hour)
	for _, others := range []int{0, 1} {
		charges := charge(l, fmt.Sprint("caller ", others), 2047)
		for i, want := range []int64{7953, 7952, 7951} {
			all := charges
			if others > 0 {
				all = append(all, charge(l, "nobody", 0)...)
			}
			verdicts := make([]ratelimit.Verdict, len(all))
			if err := b.Take(t.Context(), all, verdicts); err != nil || verdicts[0].Remaining != want {
				t.Errorf("call %d with %d others: %+v, %v, want %d left", i, others, verdicts[0], err, want)
			}
			charges[0].Cost = 1
		}
	}
}
