package ratelimit

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestDimensionTellsFieldsOnly(t *testing.T) {
	field := func(name, value string, present bool) KeyPart {
		return KeyPart{Source: SourceField, Name: name, Class: ClassText, Field: func(dst []byte, _ any) ([]byte, bool) {
			return append(dst, value...), present
		}}
	}
	whoami := func(context.Context) (string, bool) { return "alice", true }
	parts := []KeyPart{
		field("short", "m-17", true),
		field("empty", "", true),
		field("longest", strings.Repeat("x", 128), true),
		field("too_long", strings.Repeat("x", 129), true),
		field("binary", "\xff\xfe", true),
		field("missing", "", false),
		{Source: SourceIP},
		{Source: SourcePrincipal},
		{Source: SourceMetadata, Name: "authorization"},
		{Source: SourceAttr, Name: "tenant"},
	}
	want := []struct {
		value string
		ok    bool
	}{{"m-17", true}, {"", true}, {strings.Repeat("x", 128), true}, {}, {}, {}, {}, {}, {}, {}}

	other := Rule{Name: "other", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceIP}, field("short", "m-17", true)}}
	rule := Rule{Name: "all", Rate: Rate{10, time.Second}, Key: parts}
	l, err := New(table(method("/a.S/M", other, rule)), &fakeBackend{fallback: true}, WithPrincipal(whoami), WithAttr("tenant", whoami))
	if err != nil {
		t.Fatal(err)
	}
	d := l.Decide(context.Background(), &Call{Method: "/a.S/M", Transport: &fakeTransport{
		peer: netip.MustParseAddr("192.0.2.1"), header: map[string][]string{"authorization": {"secret"}},
	}})
	for i := range parts {
		if value, ok := d.Dimension(1, i); value != want[i].value || ok != want[i].ok {
			t.Errorf("Dimension(1, %d), %s = %q, %v, want %q, %v", i, &parts[i], value, ok, want[i].value, want[i].ok)
		}
	}
	if value, ok := d.Dimension(0, 1); value != "m-17" || !ok {
		t.Errorf("Dimension(0, 1) = %q, %v, want the part that both rules have", value, ok)
	}
}

func TestDimensionOfACallWithoutKey(t *testing.T) {
	key := []KeyPart{{Source: SourceField, Name: "f", Class: ClassText, Field: func([]byte, any) ([]byte, bool) { panic("boom") }}}
	l, err := New(table(method("/a.S/M", Rule{Name: "r", Rate: Rate{10, time.Second}, Key: key})), &fakeBackend{fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	d := l.Decide(context.Background(), &Call{Method: "/a.S/M"})
	if !errors.Is(d.Err, ErrKeyFunc) {
		t.Fatalf("Err is %v, want ErrKeyFunc", d.Err)
	}
	if value, ok := d.Dimension(0, 0); ok {
		t.Errorf("Dimension = %q, true after its function panicked, want false", value)
	}
}

func TestReadsRequest(t *testing.T) {
	field := KeyPart{Source: SourceField, Name: "f", Class: ClassText, Field: func(dst []byte, _ any) ([]byte, bool) { return dst, true }}
	rate := Rate{10, time.Second}
	byCost := method("/a.S/Cost", Rule{Name: "r", Rate: rate})
	byCost.Cost = Cost{Path: "n", Field: func(any) int64 { return 1 }}
	tab := table(
		method("/a.S/Plain", Rule{Name: "r", Rate: rate, Key: []KeyPart{{Source: SourceIP}}}),
		method("/a.S/Field", Rule{Name: "r", Rate: rate}, Rule{Name: "s", Rate: rate, Key: []KeyPart{{Source: SourceIP}, field}}),
		byCost,
		Method{Name: "/a.S/Exempt", Exempt: true},
	)
	l, err := New(tab, &fakeBackend{fallback: true}, WithDefaultRules(Rule{Name: "d", Rate: rate, Key: []KeyPart{field}}))
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]bool{
		"/a.S/Plain": false, "/a.S/Field": true, "/a.S/Cost": true, "/a.S/Exempt": false, "/b.S/Default": true,
		"/grpc.health.v1.Health/Check": false,
	} {
		if got := l.ReadsRequest(method); got != want {
			t.Errorf("ReadsRequest(%q) = %v, want %v", method, got, want)
		}
	}
}
