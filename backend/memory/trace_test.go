package memory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/protolimit/ratelimit"
)

// limit returns a limit for tests: "10/s", 0 for the burst of a window.
func limit(t rapid.TB, bucket, rate string, a ratelimit.Algorithm, burst int64) *ratelimit.Limit {
	t.Helper()
	r, err := ratelimit.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Rate: r, Algorithm: a, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A hand is a clock that a test sets.
type hand struct{ us int64 }

// hand's first instant is that of an hour, so that windows begin there.
const firstInstant = 1_767_225_600_000_000 // 2026-01-01

func newHand() *hand { return &hand{firstInstant} }

func (h *hand) now() time.Time { return time.UnixMicro(h.us) }

// grants are what a trace may adjust later.
type grant struct {
	delta ratelimit.Delta
	model ratelimit.Receipt
}

// A trace drives a backend and the model alike and compares each answer.
type trace struct {
	t       *rapid.T
	clock   *hand
	backend *Backend
	model   *model
	limits  []*ratelimit.Limit
	grants  []grant
	log     []string
}

func (r *trace) failf(format string, args ...any) {
	for _, line := range r.log {
		r.t.Log(line)
	}
	r.t.Fatalf(format, args...)
}

// forget drops from the model what the backend no longer has, which has to have
// been empty of charges, under the limit that it was stored with, at some time
// since.
func (r *trace) forget() {
	for k, state := range r.model.states {
		state.seen = max(state.seen, r.clock.us)
		tag := r.backend.tag(state.stored, []byte(k.key))
		found := false
		for i := range r.backend.shard(tag).tables {
			_, ok := r.backend.shard(tag).tables[i].find(tag)
			found = found || ok
		}
		if found {
			continue
		}
		c := r.model.at(state.stored, []byte(k.key), state.seen)
		if _, reset := c.tell(state.stored, state.seen); reset.Sign() > 0 {
			r.failf("%v is lost while its charges count for %v µs", k, reset)
		}
		delete(r.model.states, k)
	}
}

func (r *trace) take() {
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 3, 5, 40}).Draw(r.t, "charges")
	charges := make([]ratelimit.Charge, n)
	for i := range charges {
		l := rapid.SampledFrom(r.limits).Draw(r.t, "limit")
		key := fmt.Appendf(nil, "key%d", rapid.IntRange(0, 3).Draw(r.t, "key"))
		charges[i] = ratelimit.Charge{Limit: l, Key: key, Cost: r.cost(l)}
	}
	r.forget()
	got := make([]ratelimit.Verdict, n)
	if err := r.backend.Take(context.Background(), charges, got); err != nil {
		r.failf("Take(%v) = %v", charges, err)
	}
	want := r.model.take(charges, r.clock.us)
	for i, c := range charges {
		line := fmt.Sprintf("at %d take %v of %q from %v: %+v", r.clock.us-firstInstant, c.Cost, c.Key, c.Limit, got[i])
		r.log = append(r.log, line)
		g := got[i]
		if c.Limit.Algorithm() == ratelimit.SlidingLog && (g.Receipt.Entry == 0) == (want[i].Receipt.Entry == 0) {
			g.Receipt.Entry = want[i].Receipt.Entry
		}
		if g != want[i] {
			r.failf("got  %+v\nwant %+v", g, want[i])
		}
		if got[i].Receipt.At != 0 {
			d := ratelimit.Delta{Limit: c.Limit, Key: c.Key, Cost: c.Cost, Receipt: got[i].Receipt}
			r.grants = append(r.grants, grant{d, want[i].Receipt})
		}
	}
}

// cost is mostly a fraction of what l grants at once.
func (r *trace) cost(l *ratelimit.Limit) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, l.Most()/3+1),
		rapid.Int64Range(0, l.Most()+1),
	).Draw(r.t, "cost")
}

func (r *trace) adjust() {
	if len(r.grants) == 0 {
		return
	}
	g := rapid.SampledFrom(r.grants).Draw(r.t, "grant")
	d := g.delta
	if rapid.Bool().Draw(r.t, "other limit") {
		for _, l := range r.limits {
			if l.Hash() == d.Limit.Hash() {
				d.Limit = l
			}
		}
	}
	d.Units = rapid.OneOf(
		rapid.Int64Range(-d.Cost-1, d.Cost),
		rapid.SampledFrom([]int64{1 << 53, -1 << 53, 1<<63 - 1}),
	).Draw(r.t, "units")
	if rapid.IntRange(0, 9).Draw(r.t, "without receipt") == 0 {
		d.Receipt, g.model = ratelimit.Receipt{}, ratelimit.Receipt{}
	}
	r.log = append(r.log, fmt.Sprintf("at %d adjust %+v of %v", r.clock.us-firstInstant, d, d.Limit))
	r.forget()
	if err := r.backend.Adjust(context.Background(), []ratelimit.Delta{d}); err != nil {
		r.failf("Adjust() = %v", err)
	}
	d.Receipt = g.model
	r.model.adjust(&d, r.clock.us)
}

// wait moves the clock, now and then back.
func (r *trace) wait() {
	r.clock.us += rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, 2_000),
		rapid.Int64Range(0, 2_000_000),
		rapid.SampledFrom([]int64{1_000_000, 500_000, 3_600_000_000, 400 * 86_400_000_000}),
		rapid.Int64Range(-3_000_000, 0),
	).Draw(r.t, "µs")
}

// A backend answers as the model does, whatever is charged and adjusted, when,
// and under limits that change.
func TestTraces(t *testing.T) {
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingLog; a++ {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				clock := newHand()
				backend, err := New(WithClock(clock.now))
				if err != nil {
					t.Fatal(err)
				}
				r := &trace{t: t, clock: clock, backend: backend, model: newModel(), limits: traceLimits(t, a)}
				t.Repeat(map[string]func(*rapid.T){
					"take":   func(*rapid.T) { r.take() },
					"adjust": func(*rapid.T) { r.adjust() },
					"wait":   func(*rapid.T) { r.wait() },
					"":       func(*rapid.T) { checkInvariants(t, backend, defaultMaxKeys, defaultMaxLogEntries) },
				})
			})
		})
	}
}

// traceLimits are mostly of algorithm a; several share the bucket "b".
func traceLimits(t *rapid.T, a ratelimit.Algorithm) []*ratelimit.Limit {
	rates := []string{"10/s", "7/3s", "1000/m", "3/100ms", "1/366d", "0/s", "100/h", "10/7ms"}
	if a != ratelimit.SlidingLog {
		rates = append(rates, "1000000000/s", "1000000000000/366d", "999999999937/366d")
	}
	var limits []*ratelimit.Limit
	for range 3 {
		rate := rapid.SampledFrom(rates).Draw(t, "rate")
		burst := int64(0)
		if a.HasBurst() && rate != "0/s" {
			burst = rapid.SampledFrom([]int64{0, 1, 10, 1 << 32, 1<<32 + 1, ratelimit.MaxCount}).Draw(t, "burst")
		}
		limits = append(limits, limit(t, "b", rate, a, burst))
	}
	return append(limits,
		limit(t, "c", "10/s", ratelimit.TokenBucket, 0),
		limit(t, "b", "3/s", (a+1)%5, 0),
		limit(t, "c", "5/s", ratelimit.SlidingLog, 0),
	)
}

// checkInvariants looks at what all else relies on.
func checkInvariants(t rapid.TB, b *Backend, maxKeys, maxEntries int) {
	keys, entries, out := 0, 0, 0
	for i := range b.shards {
		s := &b.shards[i]
		listed := 0
		for k := range s.tables {
			tb := &s.tables[k]
			used := 0
			for pos := 0; pos < len(tb.words); pos += tb.stride {
				tag := tb.words[pos]
				if tag == 0 {
					continue
				}
				used++
				if at, found := tb.find(tag); !found || at != pos {
					t.Fatalf("shard %d, table %d: %x at %d is found at %d, %v", i, k, tag, pos, at, found)
				}
				if b.shard(tag) != s {
					t.Fatalf("shard %d has %x", i, tag)
				}
				if tb.kind == logKind {
					listed += checkLog(t, s, unpackLog(tb.words[pos:pos+tb.stride]))
				}
			}
			if used != tb.used {
				t.Fatalf("shard %d, table %d: %d slots used, counted %d", i, k, used, tb.used)
			}
			if tb.words[len(tb.words)-tb.stride] != 0 {
				t.Fatalf("shard %d, table %d: the last slot is used", i, k)
			}
		}
		if listed != s.slab.used {
			t.Fatalf("shard %d: %d entries in logs, %d used", i, listed, s.slab.used)
		}
		keys += max(s.used()-1, 0)
		entries += max(s.slab.used+s.slab.spares-1, 0)
		out += s.slab.used + s.slab.spares
	}
	if left := int(b.keys.left.Load()); left+keys+len(b.shards) != maxKeys {
		t.Fatalf("%d keys are counted and %d left of %d", keys, left, maxKeys)
	}
	if left := int(b.log.left.Load()); left+entries != max(0, maxEntries-len(b.shards)) {
		t.Fatalf("%d entries are counted and %d left of %d", entries, left, maxEntries)
	}
	if out != b.log.out {
		t.Fatalf("shards have %d entries, counted %d", out, b.log.out)
	}
}

func checkLog(t rapid.TB, s *shard, l log) (count int) {
	used, previous, time := uint64(0), uint32(0), int64(0)
	for e := l.head; e != 0; e = s.slab.next(e) {
		if s.slab.previous(e) != previous || s.slab.cost(e) == 0 || s.slab.time(e) < time && count > 0 {
			t.Fatalf("entry %d of %+v: previous %d, cost %d, time %d after %d", e, l, s.slab.previous(e), s.slab.cost(e), s.slab.time(e), time)
		}
		used += s.slab.cost(e)
		previous, time = e, s.slab.time(e)
		count++
	}
	if count != l.count || used != l.used || previous != l.tail {
		t.Fatalf("%+v has %d entries that cost %d, the last is %d", l, count, used, previous)
	}
	return count
}
