package goredis

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/protolimit/ratelimit"
)

func keyOf(l *ratelimit.Limit, key []byte) string { return string(appendKey(nil, "rl", l, key)) }

func TestKeyLayout(t *testing.T) {
	l := limit(t, "/acme.Pay/Charge#daily", 10, time.Second)
	for _, test := range []struct{ key, want string }{
		{"", "rl:{~/acme.Pay/Charge%23daily}:/acme.Pay/Charge#daily:t"},
		{"t\x05alice", "rl:{=alice}:/acme.Pay/Charge#daily:t"},
		{"t\x03{}\n4\xcb\x00\x71\x09n", "rl:{=%7B%7D%0A,@203.0.113.9,-}:/acme.Pay/Charge#daily:t"},
		{"6\x20\x01\x0d\xb8\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00l", "rl:{@2001:db8:0:1::,@}:/acme.Pay/Charge#daily:t"},
		{"x{", "rl:{!x%7B}:/acme.Pay/Charge#daily:t"},
	} {
		if got := keyOf(l, []byte(test.key)); got != test.want {
			t.Errorf("key of %q: got %s, want %s", test.key, got, test.want)
		}
	}
}

// Whatever bytes a caller sends: distinct buckets have distinct keys, and the
// tag is what stands between the first braces.
func TestKeysOfDistinctBucketsAreDistinct(t *testing.T) {
	part := rapid.OneOf(
		rapid.Map(rapid.StringN(0, 40, 128), func(s string) []byte { return Key(Text(s)) }),
		rapid.Map(rapid.StringN(0, 200, -1), func(s string) []byte { return Key(Header(s)) }),
		rapid.Just(Key(Missing())),
		rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.SampledFrom([][]byte{[]byte("}"), []byte("{"), []byte("{}"), []byte("t\x01}"), []byte("t\x02"), []byte("~b"), []byte("t\x00")}),
	)
	buckets := rapid.SampledFrom([]string{"b", "b:t", "b}", "{b", "", "=a}:b", ":", "b:t}:b"})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (string, []byte) {
			key := bytes.Join(rapid.SliceOfN(part, 0, 3).Draw(t, name), nil)
			return buckets.Draw(t, name+"'s bucket"), key
		}
		nameA, keyA := draw("a")
		nameB, keyB := draw("b")
		a, b := keyOf(limitNamed(t, nameA), keyA), keyOf(limitNamed(t, nameB), keyB)
		if (a == b) != (nameA == nameB && bytes.Equal(keyA, keyB)) {
			t.Fatalf("%q of %q: %s; %q of %q: %s", keyA, nameA, a, keyB, nameB, b)
		}
		tag, _, ok := strings.Cut(strings.TrimPrefix(a, "rl:{"), "}")
		if !ok || tag == "" || strings.ContainsAny(tag, "{}") {
			t.Fatalf("the tag of %s is %q", a, tag)
		}
	})
}

func limitNamed(t *rapid.T, bucket string) *ratelimit.Limit {
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Rate: ratelimit.Rate{Count: 1, Window: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Secrets do not show, and no key is long: of a text above 128 bytes, and of
// bytes above 512 that are no parts, there is a hash.
func TestLongKeysAreHashed(t *testing.T) {
	l := limit(t, "b", 10, time.Second)
	for _, key := range [][]byte{
		Key(Text(strings.Repeat("s", 129))), Key(Header("secret")), []byte(strings.Repeat("s", 513)),
	} {
		if got := keyOf(l, key); len(got) > 64 || strings.Contains(got, "sss") || strings.Contains(got, "secret") {
			t.Errorf("key of %.20q…: got %s, want a hash", key, got)
		}
	}
	if got := keyOf(l, Key(Text(strings.Repeat("{", 128)))); len(got) != len("rl:{=}:b:t")+3*128 {
		t.Errorf("key of 128 braces: got %d bytes, want each escaped", len(got))
	}
}

func TestCallersAreSpreadOverSlots(t *testing.T) {
	l := limit(t, "b", 10, time.Second)
	const callers = 100 * 64
	parts := make([]int, 64)
	for i := range callers {
		parts[slotOf(keyOf(l, Key(Text(fmt.Sprint("caller-", i)))))*len(parts)/slots]++
	}
	for i, n := range parts {
		if n < 50 || n > 160 {
			t.Errorf("part %d of the slots has %d of %d callers, want about 100", i, n, callers)
		}
	}
}

// All rules of a caller are on one slot; rules without key parts are not all on
// the same.
func TestRulesOfACallerShareASlot(t *testing.T) {
	first, second := limit(t, "first", 10, time.Second), limit(t, "second", 10, time.Minute)
	key := Key(Text("alice"), Missing())
	if a, b := slotOf(keyOf(first, key)), slotOf(keyOf(second, key)); a != b {
		t.Errorf("the rules of a caller are on slots %d and %d, want one", a, b)
	}
	if a, b := slotOf(keyOf(first, nil)), slotOf(keyOf(second, nil)); a == b {
		t.Errorf("rules without key parts are both on slot %d", a)
	}
}
