package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/costs"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/edition2024"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/kinds"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/nested"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/presence"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/proto2"
)

// missing stands for no value in a table of tests.
const missing = "(missing)"

func TestKeys(t *testing.T) {
	type request = presence.Request
	tests := []struct {
		method  string
		request any
		want    string
	}{
		// Integers, enums, bools and text.
		{"kinds.Keys/Int64", &kinds.Request{Int64: math.MinInt64}, "-9223372036854775808"},
		{"kinds.Keys/Uint64", &kinds.Request{Uint64: math.MaxUint64}, "18446744073709551615"},
		{"kinds.Keys/Uint32", &kinds.Request{Uint32: math.MaxUint32}, "4294967295"},
		{"kinds.Keys/Sfixed32", &kinds.Request{Sfixed32: -1}, "-1"},
		{"kinds.Keys/Enum", &kinds.Request{Enum: kinds.Enum_ENUM_BELOW}, "-7"},
		{"kinds.Keys/Enum", &kinds.Request{Enum: 99}, "99"},
		{"kinds.Keys/Bool", &kinds.Request{Bool: true}, "1"},
		{"kinds.Keys/String", &kinds.Request{String_: "a\x00:%{}"}, "a\x00:%{}"},
		{"kinds.Keys/Bytes", &kinds.Request{Bytes: []byte{0, 255}}, "\x00\xff"},
		// Without presence, unset is the zero value.
		{"kinds.Keys/Int32", &kinds.Request{}, "0"},
		{"kinds.Keys/Bool", &kinds.Request{}, "0"},
		{"kinds.Keys/String", &kinds.Request{}, ""},
		{"kinds.Keys/Bytes", &kinds.Request{}, ""},
		// With presence it is missing, and the zero value is a value.
		{"presence.Presence/OptionalInt", &request{}, missing},
		{"presence.Presence/OptionalInt", &request{Int: new(int32(0))}, "0"},
		{"presence.Presence/OptionalBool", &request{Bool: new(false)}, "0"},
		{"presence.Presence/OptionalText", &request{Text: new("")}, ""},
		{"presence.Presence/OptionalData", &request{}, missing},
		{"presence.Presence/OptionalData", &request{Data: []byte{}}, ""},
		{"presence.Presence/MemberInt", &request{}, missing},
		{"presence.Presence/MemberInt", &request{Member: &presence.Request_MemberInt{}}, "0"},
		{"presence.Presence/MemberInt", &request{Member: &presence.Request_MemberText{MemberText: "7"}}, missing},
		{"presence.Presence/MemberInt", &request{Member: (*presence.Request_MemberInt)(nil)}, missing},
		{"presence.Presence/MemberText", &request{Member: &presence.Request_MemberText{MemberText: "m"}}, "m"},
		{"presence.Presence/ThroughMember", &request{Member: &presence.Request_MemberRequest{}}, missing},
		{"presence.Presence/ThroughMember", &request{Member: &presence.Request_MemberRequest{
			MemberRequest: &request{Text: new("deep")},
		}}, "deep"},
		{"proto2.Proto2/WithDefault", &proto2.Request{}, missing},
		{"proto2.Proto2/WithDefault", &proto2.Request{WithDefault: new(int64(5))}, "5"},
		{"proto2.Proto2/Data", &proto2.Request{}, missing},
		{"edition2024.Edition/Explicit", &edition2024.Request{}, missing},
		{"edition2024.Edition/Explicit", edition2024.Request_builder{Text: new("")}.Build(), ""},
		// Wrappers have presence.
		{"kinds.Wrappers/Int64", &kinds.Wrapped{}, missing},
		{"kinds.Wrappers/Int64", &kinds.Wrapped{Int64: wrapperspb.Int64(0)}, "0"},
		{"kinds.Wrappers/Value", &kinds.Wrapped{Int64: wrapperspb.Int64(3)}, "3"},
		{"kinds.Wrappers/Bool", &kinds.Wrapped{Bool: wrapperspb.Bool(true)}, "1"},
		// A nil anywhere on the way.
		{"nested.Nested/Call", (*nested.Request)(nil), missing},
		{"kinds.Keys/String", (*kinds.Request)(nil), missing},
		{"edition2024.Edition/Explicit", (*edition2024.Request)(nil), missing},
		// Other types.
		{"kinds.Keys/String", nil, missing},
		{"kinds.Keys/String", "text", missing},
		{"kinds.Keys/String", kinds.Enum_ENUM_ONE, missing},
		{"kinds.Keys/String", &kinds.Wrapped{}, missing},
	}
	for _, test := range tests {
		got := read(method(t, test.method).Rules[0].Key[0], test.request)
		if got != test.want {
			t.Errorf("%s of %v: got %q, want %q", test.method, test.request, got, test.want)
		}
	}
}

func TestNestedKeys(t *testing.T) {
	type buyer = nested.Buyer
	order := func(b *buyer) *nested.Request { return &nested.Request{Order: &nested.Request_Order{Buyer: b}} }
	tests := []struct {
		request *nested.Request
		want    string
	}{
		{&nested.Request{}, missing},
		{order(nil), missing},
		{order(&buyer{}), missing},
		{order(&buyer{Account: &nested.Account{}}), "0"},
		{order(&buyer{Account: &nested.Account{Id: 42}}), "42"},
	}
	deep := method(t, "nested.Nested/Call").Rules[1].Key[0]
	for _, test := range tests {
		if got := read(deep, test.request); got != test.want {
			t.Errorf("%v: got %q, want %q", test.request, got, test.want)
		}
	}
}

func TestCosts(t *testing.T) {
	type request = costs.Request
	tests := []struct {
		method  string
		request any
		want    int64
	}{
		{"Int32", &request{Int32: -5}, -5},
		{"Uint64", &request{Uint64: 7}, 7},
		{"Uint64", &request{Uint64: math.MaxInt64}, math.MaxInt64},
		{"Uint64", &request{Uint64: math.MaxInt64 + 1}, math.MaxInt64},
		{"Fixed64", &request{Fixed64: math.MaxUint64}, math.MaxInt64},
		{"Optional", &request{}, 0},
		{"Member", &request{One: &costs.Request_Other{Other: "9"}}, 0},
		{"Member", &request{One: &costs.Request_Member{Member: 9}}, 9},
		{"String", &request{String_: "häh"}, 4},
		{"Bytes", &request{Bytes: make([]byte, 3)}, 3},
		{"Strings", &request{Strings: make([]string, 5)}, 5},
		{"Messages", &request{Messages: make([]*request, 6)}, 6},
		{"Map", &request{Map: map[string]*request{"a": nil}}, 1},
		{"Wrapped", &request{}, 0},
		{"Wrapped", &request{Wrapped: wrapperspb.Int32(8)}, 8},
		{"WrappedUnsigned", &request{WrappedUnsigned: wrapperspb.UInt64(math.MaxUint64)}, math.MaxInt64},
		{"Nested", &request{Nested: &request{}}, 0},
		{"Nested", &request{Nested: &request{Nested: &request{Strings: make([]string, 2)}}}, 2},
		{"Nested", (*request)(nil), 0},
		{"Nested", nil, 0},
		{"Nested", "text", 0},
	}
	for _, test := range tests {
		if got := method(t, "costs.Costs/"+test.method).Cost.Field(test.request); got != test.want {
			t.Errorf("%s of %v: got %d, want %d", test.method, test.request, got, test.want)
		}
	}
	unset := method(t, "proto2.Proto2/Cost").Cost.Field(&proto2.Request{})
	if unset != 5 {
		t.Errorf("unset field with a default of 5 costs %d", unset)
	}
}

// read returns what a key part appends for a request, or missing, and checks that
// what was in the slice stays.
func read(part ratelimit.KeyPart, request any) string {
	got, ok := part.Field([]byte("before:"), request)
	text, kept := strings.CutPrefix(string(got), "before:")
	switch {
	case !kept || !ok && text != "":
		return "(overwrote the slice)"
	case !ok:
		return missing
	}
	return text
}

// TestGettersAgreeWithReflection compares every getter of every golden file with
// the same path read by reflection, on random messages.
func TestGettersAgreeWithReflection(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range merged(t) {
		for range 200 {
			request := requestOf(t, m.Name)
			if random.IntN(10) > 0 {
				fill(random, request.ProtoReflect(), 3)
			}
			for _, rule := range m.Rules {
				for _, part := range rule.Key {
					if part.Source != ratelimit.SourceField {
						continue
					}
					if got, want := read(part, request), reflectKey(request, part.Name); got != want {
						t.Fatalf("%s: %s of %v: got %q, want %q", m.Name, part, request, got, want)
					}
				}
			}
			if m.Cost.Field != nil {
				if got, want := m.Cost.Field(request), reflectCost(request, m.Cost.Path); got != want {
					t.Fatalf("%s: cost %s of %v: got %d, want %d", m.Name, m.Cost.Path, request, got, want)
				}
			}
		}
	}
}

// TestGettersDoNotAllocate covers every getter of every golden file.
func TestGettersDoNotAllocate(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dst := make([]byte, 0, 1024)
	for _, m := range merged(t) {
		request := requestOf(t, m.Name)
		fill(random, request.ProtoReflect(), 3)
		for _, rule := range m.Rules {
			for _, part := range rule.Key {
				if part.Field == nil {
					continue
				}
				if n := testing.AllocsPerRun(10, func() { part.Field(dst, request) }); n != 0 {
					t.Errorf("%s: %s allocates %v times", m.Name, part, n)
				}
			}
		}
		if m.Cost.Field != nil {
			if n := testing.AllocsPerRun(10, func() { m.Cost.Field(request) }); n != 0 {
				t.Errorf("%s: cost %s allocates %v times", m.Name, m.Cost.Path, n)
			}
		}
	}
}
