package ratelimit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func value(s string, ok bool) KeyFunc {
	return func(context.Context) (string, bool) { return s, ok }
}

func TestKeyEncoding(t *testing.T) {
	addr := netip.MustParseAddr
	long := strings.Repeat("x", 129)
	text := KeyPart{Source: SourceField, Name: "id", Class: ClassText, Field: textField}
	header := KeyPart{Source: SourceMetadata, Name: "x-key"}
	ip, principal, attr := KeyPart{Source: SourceIP}, KeyPart{Source: SourcePrincipal}, KeyPart{Source: SourceAttr, Name: "tier"}
	alice, bob := WithPrincipal(value("alice", true)), WithAttr("tier", value("", true))
	anonymous := WithPrincipal(value("ignored", false))
	for _, c := range []struct {
		name  string
		call  Call
		opts  []Option
		parts []KeyPart
		want  string
	}{
		{"none", Call{}, nil, nil, ""},
		{"IPv4", Call{Transport: &fakeTransport{peer: addr("192.0.2.7")}}, nil, []KeyPart{ip}, "4\xc0\x00\x02\x07"},
		{"IPv4 in IPv6", Call{Transport: &fakeTransport{peer: addr("::ffff:192.0.2.7")}}, nil, []KeyPart{ip}, "4\xc0\x00\x02\x07"},
		{
			"IPv6 by /64",
			Call{Transport: &fakeTransport{peer: addr("2001:db8:1:2:3:4:5:6%eth0")}},
			nil,
			[]KeyPart{ip},
			"6\x20\x01\x0d\xb8\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00",
		},
		{
			"IPv6 by /56",
			Call{Transport: &fakeTransport{peer: addr("2001:db8:1:fff:3:4:5:6")}},
			[]Option{WithIPv6Prefix(56)},
			[]KeyPart{ip},
			"6\x20\x01\x0d\xb8\x00\x01\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		},
		{
			"IPv6 whole",
			Call{Transport: &fakeTransport{peer: addr("2001:db8:1:2::6")}},
			[]Option{WithIPv6Prefix(128)},
			[]KeyPart{ip},
			"6\x20\x01\x0d\xb8\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x06",
		},
		{
			"IPv6 by /65",
			Call{Transport: &fakeTransport{peer: addr("2001:db8:1:2:ffff::6")}},
			[]Option{WithIPv6Prefix(65)},
			[]KeyPart{ip},
			"6\x20\x01\x0d\xb8\x00\x01\x00\x02\x80\x00\x00\x00\x00\x00\x00\x00",
		},
		{"unix socket", Call{Transport: &fakeTransport{}}, nil, []KeyPart{ip}, "l"},
		{"no peer", Call{Transport: &fakeTransport{noPeer: true}}, nil, []KeyPart{ip}, "n"},
		{"no transport", Call{}, nil, []KeyPart{ip, header}, "nn"},
		{"principal", Call{}, []Option{alice}, []KeyPart{principal}, "t\x05alice"},
		{"no principal", Call{}, []Option{anonymous}, []KeyPart{principal}, "n"},
		{"empty attr", Call{}, []Option{bob}, []KeyPart{attr}, "t\x00"},
		{"field", Call{Request: "a{b}"}, nil, []KeyPart{text}, "t\x04a{b}"},
		{"no field", Call{Request: 5}, nil, []KeyPart{text}, "n"},
		{"long field", Call{Request: long}, nil, []KeyPart{text}, "T" + sha("", long)},
		{"long principal", Call{}, []Option{WithPrincipal(value(long, true))}, []KeyPart{principal}, "T" + sha("", long)},
		{
			"header",
			Call{Transport: &fakeTransport{header: map[string][]string{"x-key": {"secret"}}}},
			nil,
			[]KeyPart{header},
			"m" + sha("\x00\x00\x00\x00\x00\x00\x00\x06", "secret"),
		},
		{"parts in order", Call{Request: "f"}, []Option{alice, bob}, []KeyPart{principal, text, attr}, "t\x05alicet\x01ft\x00"},
	} {
		if got := keyOf(t, c.call, c.opts, c.parts...); string(got) != c.want {
			t.Errorf("%s: key is %q, want %q", c.name, got, c.want)
		}
	}
}

func sha(prefix, s string) string {
	sum := sha256.Sum256([]byte(prefix + s))
	return string(sum[:hashSize])
}

// drawnValue is what one part of a call may be.
type drawnValue struct {
	text    string
	missing bool
}

// TestDistinctPartsNeverShareAKey is promise 7: whatever bytes callers send.
func TestDistinctPartsNeverShareAKey(t *testing.T) {
	sources := []KeyPart{
		{Source: SourceField, Name: "a", Class: ClassText, Field: func(dst []byte, r any) ([]byte, bool) {
			v := r.([]drawnValue)[0]
			return append(dst, v.text...), !v.missing
		}},
		{Source: SourceMetadata, Name: "b"},
		{Source: SourceField, Name: "c", Class: ClassText, Field: func(dst []byte, r any) ([]byte, bool) {
			v := r.([]drawnValue)[2]
			return append(dst, v.text...), !v.missing
		}},
	}
	// Few letters, so that values that only differ in where they are cut are
	// common; among them the tags and separators of the encoding.
	draw := rapid.Custom(func(t *rapid.T) drawnValue {
		if rapid.IntRange(0, 4).Draw(t, "missing") == 0 {
			return drawnValue{missing: true}
		}
		return drawnValue{text: rapid.StringOfN(rapid.RuneFrom([]rune("nt:\x00\x01a{}(é")), 0, 3, -1).Draw(t, "text") +
			strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 0, 1, 125, 128, 129, 300}).Draw(t, "length"))}
	})
	calls := rapid.SliceOfN(draw, 3, 3)
	rapid.Check(t, func(t *rapid.T) {
		one, two := calls.Draw(t, "one"), calls.Draw(t, "two")
		key := func(values []drawnValue) []byte {
			transport := &fakeTransport{header: map[string][]string{}}
			if !values[1].missing {
				transport.header["b"] = []string{values[1].text}
			}
			return keyOf(t, Call{Request: values, Transport: transport}, nil, sources...)
		}
		if same := fmt.Sprint(one) == fmt.Sprint(two); same != bytes.Equal(key(one), key(two)) {
			t.Fatalf("keys of %+v and %+v are %q and %q", one, two, key(one), key(two))
		}
	})
}

// TestSplittingHeaderValuesChangesTheKey: "a" and "b" are not "ab".
func TestSplittingHeaderValuesChangesTheKey(t *testing.T) {
	seen := map[string][]string{}
	for _, values := range [][]string{{"ab"}, {"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}, {"a,b"}, {""}, {"", ""}} {
		key := string(keyOf(t, Call{Transport: &fakeTransport{header: map[string][]string{"k": values}}}, nil, KeyPart{Source: SourceMetadata, Name: "k"}))
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have one key", values, other)
		}
		seen[key] = values
	}
}

// TestHeadersAreStoredAsHashes: no backend is ever given a header's value.
func TestHeadersAreStoredAsHashes(t *testing.T) {
	const secret = "Bearer very-secret-token"
	l, err := New(table(method("/a.S/M", Rule{Name: "r", Rate: Rate{10, day}, Key: []KeyPart{{Source: SourceMetadata, Name: "authorization"}}})),
		&fakeBackend{fallback: true, take: func(_ context.Context, charges []Charge, _ []Verdict) error {
			if whole := charges[0].Key[:cap(charges[0].Key)]; bytes.Contains(whole, []byte("secret")) {
				t.Errorf("the backend can read the header's value: %q", whole)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &fakeTransport{header: map[string][]string{"authorization": {secret}}}
	for range 3 {
		d := l.Decide(context.Background(), &Call{Method: "/a.S/M", Transport: transport})
		if whole := d.key.bytes[:cap(d.key.bytes)]; bytes.Contains(whole, []byte("secret")) {
			t.Errorf("the value lingers in the buffer: %q", whole)
		}
		d.Done(context.Background(), 0)
	}
}

// TestFunctionsAreAskedOnceACall: three rules that name the same part do not
// ask its function three times.
func TestFunctionsAreAskedOnceACall(t *testing.T) {
	asked := 0
	principal := WithPrincipal(func(context.Context) (string, bool) { asked++; return "alice", true })
	p := KeyPart{Source: SourcePrincipal}
	rules := []Rule{
		{Name: "a", Rate: Rate{10, day}, Key: []KeyPart{p}},
		{Name: "b", Rate: Rate{10, day}, Key: []KeyPart{{Source: SourceIP}, p}},
		{Name: "c", Rate: Rate{10, day}, Key: []KeyPart{p, {Source: SourceIP}}},
	}
	var keys []string
	l, err := New(table(method("/a.S/M", rules...)), &fakeBackend{fallback: true, take: func(_ context.Context, charges []Charge, _ []Verdict) error {
		for _, c := range charges {
			keys = append(keys, string(c.Key))
		}
		return nil
	}}, principal)
	if err != nil {
		t.Fatal(err)
	}
	l.Decide(context.Background(), &Call{Method: "/a.S/M", Transport: &fakeTransport{}})
	if want := []string{"t\x05alice", "lt\x05alice", "t\x05alicel"}; asked != 1 || fmt.Sprint(keys) != fmt.Sprint(want) {
		t.Errorf("asked %d times for keys %q, want once for %q", asked, keys, want)
	}
}
