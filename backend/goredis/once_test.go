package goredis

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// used returns how much of a bucket is used, by a backend with a way of its own.
func used(t *testing.T, server *redistest.Server, l *ratelimit.Limit, key string) int64 {
	t.Helper()
	b, err := New(server.Client(), WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	verdicts := make([]ratelimit.Verdict, 1)
	if err := b.Take(t.Context(), charge(l, key, 0), verdicts); err != nil {
		t.Fatal(err)
	}
	return l.Most() - verdicts[0].Remaining
}

// TestLostReplyIsChargedOnce: a call whose answer never comes is not sent again,
// whatever the client's settings say. Connections are warm, so that a second try
// would get through.
func TestLostReplyIsChargedOnce(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: 5, DialerRetries: 1, ReadTimeout: time.Second, WriteTimeout: time.Second, MinIdleConns: 4})
	t.Cleanup(func() { _ = client.Close() })
	b, err := New(client, WithBudget(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := limit(t, "once", 100, time.Hour)
	verdicts := make([]ratelimit.Verdict, 1)
	if err := b.Take(t.Context(), charge(l, "alice", 1), verdicts); err != nil {
		t.Fatal(err)
	}
	receipt := verdicts[0].Receipt
	// Connections that have shaken hands, each good for one more try.
	warm := func() {
		proxy.Pass()
		var conns []*redis.Conn
		for range 4 {
			conn := client.Conn()
			conns = append(conns, conn)
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		proxy.CutReplies(0)
	}
	warm()
	if err := b.Take(t.Context(), charge(l, "alice", 10), verdicts); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("a call whose reply is lost ends with %v", err)
	}
	warm()
	err = b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: []byte("alice"), Cost: 1, Units: 20, Receipt: receipt}})
	if !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("an adjustment whose reply is lost ends with %v", err)
	}
	if n := used(t, server, l, "alice"); n > 1+10+20 {
		t.Errorf("%d units are used, want each charge once: at most 31", n)
	}
}

// decideTogether has one batch decide requests of one charge each.
func decideTogether(t *testing.T, b *Backend, charges ...ratelimit.Charge) {
	t.Helper()
	s, _, err := b.topology.route(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var requests []*request
	for i := range charges {
		r := newRequest()
		r.add(string(appendKey(nil, b.namespace, charges[i].Limit, charges[i].Key)), &charges[i])
		requests = append(requests, r)
	}
	s.decide(requests)
	for _, r := range requests {
		<-r.done
		if r.err != nil || !r.granted {
			t.Fatalf("granted %t, %v", r.granted, r.err)
		}
		r.free()
	}
}

// TestExpiryInBatches: a key of a batch expires when it is empty or a little later,
// whether it is new, charged twice, or kept its expiry.
func TestExpiryInBatches(t *testing.T) {
	server := redistest.Start(t)
	b, err := New(server.Client(), WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for a := ratelimit.TokenBucket; a <= ratelimit.SlidingWindow; a++ {
		of := func(count int64, window time.Duration) *ratelimit.Limit {
			l, err := ratelimit.NewLimit("expiry", ratelimit.Rule{Rate: ratelimit.Rate{Count: count, Window: window}, Algorithm: a})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		// So fast that a charge moves the end by less than the second up to which an
		// expiry is kept.
		slow, fast := of(100_000, time.Hour), of(100_000, time.Minute)
		at := func(l *ratelimit.Limit, key string) ratelimit.Charge {
			return ratelimit.Charge{Limit: l, Key: []byte(key), Cost: 1}
		}
		slack := func(l *ratelimit.Limit, reset time.Duration) time.Duration {
			if l.Algorithm().HasBurst() {
				return 2*time.Second + reset/4
			}
			return 2 * time.Second
		}
		check := func(when string, l *ratelimit.Limit, key string) {
			t.Helper()
			name := string(appendKey(nil, b.namespace, l, []byte(key)))
			ttl := server.Client().PTTL(t.Context(), name).Val()
			// Asked afterwards, when less is left.
			verdicts := make([]ratelimit.Verdict, 1)
			if err := b.Take(t.Context(), charge(l, key, 0), verdicts); err != nil {
				t.Fatal(err)
			}
			if reset := verdicts[0].ResetAfter; ttl < reset-2*time.Millisecond || ttl > reset+slack(l, reset) {
				t.Errorf("%v, %s: expires in %v, is empty in %v", a, when, ttl, reset)
			}
		}
		decideTogether(t, b, at(slow, "new"), at(slow, "new"), at(slow, "other"))
		check("new and charged twice", slow, "new")
		decideTogether(t, b, at(slow, "new"), at(slow, "other"), at(slow, "third"))
		check("charged again", slow, "new")
		much := at(slow, "new")
		much.Cost = 10_000
		decideTogether(t, b, much, at(slow, "other"), at(slow, "third"))
		check("charged much", slow, "new")
		decideTogether(t, b, at(fast, "new"), at(fast, "other"), at(fast, "third"))
		check("under a shorter window", fast, "new")
		decideTogether(t, b, at(slow, "new"), at(slow, "other"), at(slow, "third"))
		check("under a longer one", slow, "new")
	}
}

// TestStringsOfTheRightLengthAreForeign: what somebody else stored under our key is
// neither read as a level nor overwritten.
func TestStringsOfTheRightLengthAreForeign(t *testing.T) {
	client := redistest.Shared(t).Client()
	b, err := New(client, WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	level := func(shift byte, numbers ...float64) string {
		s := []byte{shift}
		for _, n := range numbers {
			s = binary.LittleEndian.AppendUint64(s, math.Float64bits(n))
		}
		return string(s)
	}
	for _, held := range []string{
		"not a number", strings.Repeat("\x00", 12), strings.Repeat("\xff", 12), strings.Repeat("\xb0", 12), strings.Repeat("\x9f", 12),
		`{"user":"alice","n":1234}`, strings.Repeat("1", 25), strings.Repeat("\xff", 25), strings.Repeat("\x00", 25),
		level(20, math.NaN(), 1, 1), level(20, -1, 1, 1), level(20, 1<<54, 1, 1), level(10, 1, math.Inf(1), 1), level(11, 1, 1, 1),
	} {
		for _, l := range []*ratelimit.Limit{limit(t, "foreign", 10, time.Hour), limit(t, "foreign", 999_999_999_989, 366*24*time.Hour)} {
			key := string(appendKey(nil, b.namespace, l, []byte("alice")))
			if err := client.Set(t.Context(), key, held, 0).Err(); err != nil {
				t.Fatal(err)
			}
			err := b.Take(context.Background(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1))
			if !errors.Is(err, ratelimit.ErrBackendBug) || client.Get(t.Context(), key).Val() != held {
				t.Errorf("%q under %v: %v, want a bug and the string left alone", held, l, err)
			}
		}
	}
}

// TestManyBucketsInOneCall: up to the bound every algorithm decides; beyond it the
// error says so.
func TestManyBucketsInOneCall(t *testing.T) {
	b, err := New(redistest.Shared(t).Client(), WithBudget(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for _, n := range []int{maxBuckets, maxBuckets + 1} {
		for _, a := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.SlidingWindow} {
			charges := make([]ratelimit.Charge, n)
			deltas := make([]ratelimit.Delta, n)
			for i := range charges {
				l, err := ratelimit.NewLimit(strings.Repeat("x", i), ratelimit.Rule{Rate: ratelimit.Rate{Count: 10, Window: time.Hour}, Algorithm: a})
				if err != nil {
					t.Fatal(err)
				}
				charges[i] = ratelimit.Charge{Limit: l, Key: []byte("k"), Cost: 1}
				deltas[i] = ratelimit.Delta{Limit: l, Key: []byte("k"), Cost: 1, Units: 1}
			}
			err := b.Take(t.Context(), charges, make([]ratelimit.Verdict, n))
			if (err != nil) != (n > maxBuckets) || err != nil && !strings.Contains(err.Error(), "900 buckets") {
				t.Errorf("%d buckets of %v: %v", n, a, err)
			}
			if err := b.Adjust(t.Context(), deltas); err != nil {
				t.Errorf("%d changes of %v: %v", n, a, err)
			}
		}
	}
}
