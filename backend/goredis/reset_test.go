package goredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func testReset(t *testing.T, url string) {
	t.Helper()
	b := opened(t, url)
	buckets := []*ratelimit.Limit{limit(t, "first", 1, time.Hour), limit(t, "second", 1, time.Hour), limit(t, "never used", 1, time.Hour)}
	alice, bob := Key(Text("alice")), Key(Text("bob"))
	for _, l := range buckets[:2] {
		for _, key := range [][]byte{alice, bob} {
			took(t, b, l, key)
			if took(t, b, l, key).Allowed {
				t.Fatalf("%s of %q: want the second call refused", l.Bucket(), key)
			}
		}
	}
	n, err := b.Reset(t.Context(), alice, buckets...)
	if n != 2 || err != nil {
		t.Errorf("Reset: got %d, %v, want 2", n, err)
	}
	for _, l := range buckets[:2] {
		if !took(t, b, l, alice).Allowed {
			t.Errorf("%s of alice after the reset: refused", l.Bucket())
		}
		if took(t, b, l, bob).Allowed {
			t.Errorf("%s of bob after alice's reset: allowed", l.Bucket())
		}
	}
	took(t, b, buckets[0], nil)
	if n, err := b.Reset(t.Context(), Key(), buckets[0]); n != 1 || err != nil {
		t.Errorf("Reset of a rule without key parts: got %d, %v, want 1", n, err)
	}
}

func TestReset(t *testing.T)          { testReset(t, redistest.Shared(t).URL()) }
func TestResetOnCluster(t *testing.T) { testReset(t, redistest.StartCluster(t).URL()) }

func TestResetWhenNobodyAnswers(t *testing.T) {
	s := redistest.Start(t)
	b := opened(t, s.URL())
	l := limit(t, "b", 1, time.Hour)
	s.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Reset(ctx, nil, l); !errors.Is(err, context.Canceled) {
		t.Errorf("with a caller that left: got %v, want its cause", err)
	}
	s.Resume()
	s.Kill()
	if _, err := b.Reset(t.Context(), nil, l); !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
		t.Errorf("without a server: got %v, want an outage", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := b.Reset(t.Context(), nil, l); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("after Close: got %v, want an outage", err)
	}
}

// The patterns of docs/redis.md find a caller's buckets, and nobody else's.
func TestScanFindsACaller(t *testing.T) {
	s := redistest.Shared(t)
	b := opened(t, s.URL())
	l := limit(t, "b", 10, time.Hour)
	for _, key := range [][]byte{
		Key(Text("alice")), Key(Text("alice2")), Key(Text("ali"), Text("alice")), Key(Text("a*")), Key(Header("alice")), nil,
	} {
		took(t, b, l, key)
	}
	for pattern, want := range map[string][]string{
		"rl:{=alice}:*":   {"rl:{=alice}:b:t"},
		"rl:{*=alice*}:*": {"rl:{=ali,=alice}:b:t", "rl:{=alice2}:b:t", "rl:{=alice}:b:t"},
		"rl:{=a%2A}:*":    {"rl:{=a%2A}:b:t"},
		"rl:{~b}:*":       {"rl:{~b}:b:t"},
	} {
		var got []string
		for scan := s.Client().Scan(t.Context(), 0, pattern, 1000).Iterator(); scan.Next(t.Context()); {
			got = append(got, scan.Val())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("SCAN MATCH %s: got %q, want %q", pattern, got, want)
		}
	}
}

// A recorder keeps the keys that it is asked for.
type recorder struct {
	ratelimit.Backend
	keys [][]byte
}

func (r *recorder) Take(_ context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	for i := range charges {
		r.keys = append(r.keys, append([]byte{}, charges[i].Key...))
		verdicts[i] = ratelimit.Verdict{Allowed: true}
	}
	return nil
}

// headers are those of a call.
type headers map[string][]string

func (headers) Peer(context.Context) (netip.Addr, bool) {
	return netip.MustParseAddr("2001:db8:0:1:2:3:4:5"), true
}
func (h headers) Values(_ context.Context, name string) []string { return h[name] }

// Key makes the keys that a limiter makes.
func TestKeyIsTheLimiters(t *testing.T) {
	long := strings.Repeat("l", 129)
	var rules []ratelimit.Rule
	want := [][]byte{}
	for _, test := range []struct {
		source string
		part   Part
	}{
		{"principal", Text("alice")},
		{"attr:long", Text(long)},
		{"attr:none", Missing()},
		{"metadata:x-key", Header("secret", "other")},
		{"ip", IP(netip.MustParsePrefix("2001:db8:0:1::/64"))},
	} {
		part, err := ratelimit.ParseKeyPart(test.source)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, ratelimit.Rule{
			Name: "r" + strings.Map(letters, test.source), Rate: ratelimit.Rate{Count: 1, Window: time.Second}, Key: []ratelimit.KeyPart{part},
		})
		want = append(want, Key(test.part))
	}
	r := &recorder{}
	text := func(s string, ok bool) func(context.Context) (string, bool) {
		return func(context.Context) (string, bool) { return s, ok }
	}
	limiter, err := ratelimit.New(ratelimit.Table{{Name: "/a.B/C", Rules: rules}}, r,
		ratelimit.WithPrincipal(text("alice", true)), ratelimit.WithAttr("long", text(long, true)), ratelimit.WithAttr("none", text("", false)))
	if err != nil {
		t.Fatal(err)
	}
	call := &ratelimit.Call{Method: "/a.B/C", Transport: headers{"x-key": {"secret", "other"}}}
	limiter.Decide(t.Context(), call).Done(t.Context(), 0)
	if len(r.keys) != len(want) {
		t.Fatalf("%d charges, want %d", len(r.keys), len(want))
	}
	for i, key := range r.keys {
		if !bytes.Equal(key, want[i]) {
			t.Errorf("key of %v: got %q, the limiter's is %q", rules[i].Key, want[i], key)
		}
	}
}

func letters(r rune) rune {
	if r < 'a' || r > 'z' {
		return -1
	}
	return r
}

// A server that is silent holds up the reset on no other, and an error names it.
func TestResetNamesTheServersThatFail(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.Replicas(0), redistest.Config("cluster-node-timeout 60000"))
	client, err := NewClient(nodes.URL() + "&read_timeout=60s&write_timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, WithBudget(50*time.Second), WithLogger((&logbook{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), client.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	// A rule without key parts has its slot by its name.
	var limits []*ratelimit.Limit
	homes := map[string]int{}
	for i := 0; len(homes) < 3; i++ {
		l := limit(t, fmt.Sprint("b", i), 10, time.Hour)
		if home := nodes.MasterOf(nodes.Slot(keyOf(l, nil))).Addr; homes[home] == 0 {
			limits = append(limits, l)
			homes[home]++
			took(t, b, l, nil)
		}
	}
	silent := nodes.Nodes[:2]
	for _, s := range silent {
		s.Pause()
	}
	start := time.Now()
	n, err := b.Reset(t.Context(), nil, limits...)
	if took := time.Since(start); n != 1 || took < resetTime || took >= 2*resetTime {
		t.Errorf("Reset returns %d after %v, want 1, the one of the server that answers, after %v", n, took, resetTime)
	}
	if !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) {
		t.Errorf("Reset returns %v, want an outage", err)
	}
	for _, s := range silent {
		if !strings.Contains(err.Error(), s.Addr) {
			t.Errorf("Reset returns %v, which does not name %s", err, s.Addr)
		}
		s.Resume()
	}
	if strings.Contains(err.Error(), nodes.Nodes[2].Addr) {
		t.Errorf("Reset returns %v, which names %s, which answered", err, nodes.Nodes[2].Addr)
	}
	if _, ok := errors.AsType[*ratelimit.ShardError](err); !ok {
		t.Errorf("Reset returns %v, want a ShardError", err)
	}
}
