package goredis

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func limit(t testing.TB, bucket string, count int64, window time.Duration) *ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Rate: ratelimit.Rate{Count: count, Window: window}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func charge(l *ratelimit.Limit, key string, cost int64) []ratelimit.Charge {
	return []ratelimit.Charge{{Limit: l, Key: []byte(key), Cost: cost}}
}

func refusedFor(wait time.Duration) []ratelimit.Verdict {
	return []ratelimit.Verdict{{Reason: ratelimit.ReasonExceeded, Remaining: 1, RetryAfter: wait, ResetAfter: 2 * wait}}
}

// asked returns what is remembered of a call, or false.
func (r *refusals) asked(charges []ratelimit.Charge) ([]ratelimit.Verdict, bool) {
	verdicts := make([]ratelimit.Verdict, len(charges))
	ok := r.answer(r.sign(charges), charges, verdicts)
	return verdicts, ok
}

func (r *refusals) told(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) {
	r.remember(r.sign(charges), charges, verdicts)
}

func TestRefusalIsRememberedAsLongAsItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newRefusals(), limit(t, "b", 10, time.Second)
		r.told(charge(l, "alice", 3), refusedFor(300*time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		got, ok := r.asked(charge(l, "alice", 3))
		want := ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, Remaining: 1, RetryAfter: 200 * time.Millisecond, ResetAfter: 500 * time.Millisecond}
		if !ok || got[0] != want {
			t.Errorf("after 100ms it is %+v, %t; want %+v", got[0], ok, want)
		}
		time.Sleep(200*time.Millisecond - time.Nanosecond)
		if _, ok := r.asked(charge(l, "alice", 3)); !ok {
			t.Error("it is forgotten before the wait is over")
		}
		time.Sleep(time.Nanosecond)
		if got, ok := r.asked(charge(l, "alice", 3)); ok {
			t.Errorf("when the wait is over it is %+v, want that Redis is asked", got)
		}
	})
}

func TestRefusalIsRememberedForASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{time.Hour, ratelimit.MaxWait, ratelimit.Never} {
			r, l := newRefusals(), limit(t, "b", 10, time.Hour)
			r.told(charge(l, "alice", 3), refusedFor(wait))
			time.Sleep(time.Second - 1)
			if _, ok := r.asked(charge(l, "alice", 3)); !ok {
				t.Errorf("wait of %v: forgotten within the second", wait)
			}
			time.Sleep(time.Nanosecond)
			if _, ok := r.asked(charge(l, "alice", 3)); ok {
				t.Errorf("wait of %v: still remembered after a second", wait)
			}
		}
	})
}

func TestRefusalAnswersTheSameCallOnly(t *testing.T) {
	r, l := newRefusals(), limit(t, "b", 10, time.Hour)
	r.told(charge(l, "alice", 3), refusedFor(time.Hour))
	same := limit(t, "b", 10, time.Hour)
	pair := append(charge(l, "alice", 3), charge(l, "bob", 3)...)
	for _, c := range []struct {
		name    string
		charges []ratelimit.Charge
		want    bool
	}{
		{"the same", charge(l, "alice", 3), true},
		{"the limit of another table with the same numbers", charge(same, "alice", 3), true},
		{"a higher cost", charge(l, "alice", 4), true},
		{"a lower cost", charge(l, "alice", 2), false},
		{"only a look", charge(l, "alice", 0), false},
		{"another caller", charge(l, "bob", 3), false},
		{"another bucket", charge(limit(t, "c", 10, time.Hour), "alice", 3), false},
		{"a raised limit", charge(limit(t, "b", 20, time.Hour), "alice", 3), false},
		{"another window", charge(limit(t, "b", 10, time.Minute), "alice", 3), false},
		{"another call with it", pair, false},
	} {
		if got, ok := r.asked(c.charges); ok != c.want {
			t.Errorf("%s: answered %t with %+v, want %t", c.name, ok, got, c.want)
		}
	}
	if got, _ := r.asked(charge(l, "alice", 11)); got[0].Reason != ratelimit.ReasonNever || got[0].RetryAfter != ratelimit.Never {
		t.Errorf("a cost above the limit is told %+v, want that no wait will help", got[0])
	}
}

// TestRefusalTellsTheWaitOfAHigherCost: as long as Redis would have.
func TestRefusalTellsTheWaitOfAHigherCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			algorithm ratelimit.Algorithm
			want      time.Duration // 0: Redis is asked
		}{
			{ratelimit.TokenBucket, 4200 * time.Millisecond},
			{ratelimit.LeakyBucket, 4200 * time.Millisecond},
			{ratelimit.FixedWindow, 200 * time.Millisecond},
			{ratelimit.SlidingWindow, 0},
			{ratelimit.SlidingLog, 0},
		} {
			l, err := ratelimit.NewLimit("b", ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: 10 * time.Second}, Algorithm: c.algorithm})
			if err != nil {
				t.Fatal(err)
			}
			r := newRefusals()
			r.told(charge(l, "alice", 1), refusedFor(300*time.Millisecond))
			time.Sleep(100 * time.Millisecond)
			got, ok := r.asked(charge(l, "alice", 5))
			if ok != (c.want != 0) || ok && got[0].RetryAfter != c.want {
				t.Errorf("%v: a cost of 5 is told %v, %t; want %v", c.algorithm, got[0].RetryAfter, ok, c.want)
			}
		}
	})
}

func TestRefusalOfSeveralRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		call := append(charge(limit(t, "a", 10, time.Second), "k", 1), charge(limit(t, "b", 10, time.Hour), "k", 1)...)
		call = append(call, charge(limit(t, "c", 10, time.Hour), "k", 1)...)
		verdicts := append(refusedFor(100*time.Millisecond), refusedFor(time.Minute)...)
		verdicts = append(verdicts, ratelimit.Verdict{Allowed: true, Remaining: 4, ResetAfter: time.Minute})
		r.told(call, verdicts)
		time.Sleep(500 * time.Millisecond)
		got, ok := r.asked(call)
		if !ok || !got[0].Allowed || got[0].RetryAfter != 0 || got[1].Allowed || got[1].RetryAfter != time.Minute-500*time.Millisecond || !got[2].Allowed {
			t.Errorf("after the first rule's wait it is %+v, %t; want only the second to refuse", got, ok)
		}
		call[0].Cost = 2
		if _, ok := r.asked(call); ok {
			t.Error("the same call at another cost is answered")
		}
	})
}

func TestWhatIsGrantedIsNotRemembered(t *testing.T) {
	r, l := newRefusals(), limit(t, "b", 10, time.Hour)
	r.told(charge(l, "alice", 3), []ratelimit.Verdict{{Allowed: true, Remaining: 7}})
	if got, ok := r.asked(charge(l, "alice", 3)); ok {
		t.Errorf("a granted call is answered by %+v", got)
	}
}

func TestAdjustingForgetsRefusals(t *testing.T) {
	r, l := newRefusals(), limit(t, "b", 10, time.Hour)
	call := charge(l, "alice", 3)
	sent := r.sign(call)
	r.remember(sent, call, refusedFor(time.Hour))
	r.forget(l, []byte("alice"))
	if _, ok := r.asked(call); ok {
		t.Error("a refusal outlives an adjustment of its bucket")
	}
	r.remember(sent, call, refusedFor(time.Hour))
	if _, ok := r.asked(call); ok {
		t.Error("a refusal that was asked for before an adjustment outlives it")
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	r, l := newRefusals(), limit(t, "b", 10, time.Hour)
	for i := range 2 * refusalShards * refusalsPerShard {
		r.told(charge(l, strconv.Itoa(i), 3), refusedFor(time.Hour))
	}
	total := 0
	for i := range r.shards {
		total += len(r.shards[i].calls)
	}
	if most := refusalShards * refusalsPerShard; total > most {
		t.Errorf("%d calls are remembered, want at most %d", total, most)
	}
}

// What an adjustment gives back may be used at once, though the refusal
// before it is remembered.
func TestAdjustForgetsRefusals(t *testing.T) {
	b := opened(t, redistest.Shared(t).URL())
	l, err := ratelimit.NewLimit("b", ratelimit.Rule{Algorithm: ratelimit.FixedWindow, Rate: ratelimit.Rate{Count: 1, Window: 366 * 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	key := Key(Text("alice"))
	v := took(t, b, l, key)
	if took(t, b, l, key).Allowed {
		t.Fatal("the second call is allowed, want a refusal")
	}
	if err := b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: v.Receipt}}); err != nil {
		t.Fatal(err)
	}
	if !took(t, b, l, key).Allowed {
		t.Error("a call after its unit was given back is refused")
	}
}

// A refusal for the sake of units that a refused call held for a moment is not
// remembered once they are given back.
func TestCancelForgetsRefusals(t *testing.T) {
	b := opened(t, redistest.StartCluster(t, redistest.Replicas(0)).URL())
	window := 366 * 24 * time.Hour
	wide, narrow := limit(t, "wide", 1000, window), limit(t, "narrow", 1, window)
	took(t, b, narrow, []byte("shop"))
	alice := charge(wide, "alice", 1)
	b.refusals.remember(b.refusals.sign(alice), alice, refusedFor(time.Hour))
	both := append(charge(wide, "alice", 1), charge(narrow, "shop", 1)...)
	verdicts := make([]ratelimit.Verdict, 2)
	if err := b.Take(t.Context(), both, verdicts); err != nil || !verdicts[0].Allowed || verdicts[1].Allowed {
		t.Fatalf("answered %+v, %v, want that only the second refuses", verdicts, err)
	}
	if v := took(t, b, wide, []byte("alice")); !v.Allowed {
		t.Errorf("answered %+v, want a grant: what the refused call held was given back", v)
	}
}
