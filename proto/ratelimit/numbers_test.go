package ratelimitpb_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// TestNumbers pins what stands in compiled descriptors. buf breaking does not
// notice that an extension has another number.
func TestNumbers(t *testing.T) {
	var got []string
	note := func(d protoreflect.Descriptor, number protoreflect.FieldNumber, more string) {
		got = append(got, fmt.Sprintf("%s = %d %s", d.FullName(), number, more))
	}
	field := func(f protoreflect.FieldDescriptor) string {
		kind := f.Kind().String()
		switch {
		case f.Message() != nil:
			kind = string(f.Message().FullName())
		case f.Enum() != nil:
			kind = string(f.Enum().FullName())
		}
		presence := ""
		if f.HasPresence() {
			presence = ", with presence"
		}
		return fmt.Sprintf("%s %s%s", f.Cardinality(), kind, presence)
	}
	file := ratelimitpb.File_ratelimit_options_proto
	for i := range file.Extensions().Len() {
		x := file.Extensions().Get(i)
		note(x, x.Number(), field(x)+", of "+string(x.ContainingMessage().FullName()))
	}
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		for j := range m.Fields().Len() {
			note(m.Fields().Get(j), m.Fields().Get(j).Number(), field(m.Fields().Get(j)))
		}
		for j := range m.Enums().Len() {
			for k := range m.Enums().Get(j).Values().Len() {
				v := m.Enums().Get(j).Values().Get(k)
				got = append(got, fmt.Sprintf("%s.%s = %d", v.Parent().Name(), v.Name(), v.Number()))
			}
		}
	}
	want := []string{
		"ratelimit.rule = 72830 repeated ratelimit.Rule, of google.protobuf.MethodOptions",
		"ratelimit.method = 72831 optional ratelimit.Method, with presence, of google.protobuf.MethodOptions",
		"ratelimit.service_rule = 72832 repeated ratelimit.Rule, of google.protobuf.ServiceOptions",
		"ratelimit.default_rule = 72833 repeated ratelimit.Rule, of google.protobuf.ServiceOptions",
		"ratelimit.Rule.name = 1 optional string, with presence",
		"ratelimit.Rule.rate = 2 optional string, with presence",
		"ratelimit.Rule.burst = 3 optional int64, with presence",
		"ratelimit.Rule.algorithm = 4 optional ratelimit.Rule.Algorithm, with presence",
		"ratelimit.Rule.key = 5 repeated string",
		"ratelimit.Rule.bucket = 6 optional string, with presence",
		"ratelimit.Rule.on_unavailable = 7 optional ratelimit.Rule.OnUnavailable, with presence",
		"Algorithm.ALGORITHM_UNSPECIFIED = 0",
		"Algorithm.TOKEN_BUCKET = 1",
		"Algorithm.LEAKY_BUCKET = 2",
		"Algorithm.FIXED_WINDOW = 3",
		"Algorithm.SLIDING_WINDOW = 4",
		"Algorithm.SLIDING_LOG = 5",
		"OnUnavailable.ON_UNAVAILABLE_UNSPECIFIED = 0",
		"OnUnavailable.LOCAL = 1",
		"OnUnavailable.ALLOW = 2",
		"OnUnavailable.DENY = 3",
		"ratelimit.Method.cost = 1 optional string, with presence",
		"ratelimit.Method.refund_on = 2 repeated string",
		"ratelimit.Method.exempt = 3 optional bool, with presence",
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not pinned: %s", line)
		}
	}
}

// TestReserved keeps the number and name that concurrency limits will have.
func TestReserved(t *testing.T) {
	algorithms := ratelimitpb.Rule_TOKEN_BUCKET.Descriptor()
	if !algorithms.ReservedRanges().Has(6) || !algorithms.ReservedNames().Has("CONCURRENCY") {
		t.Error("number 6 and CONCURRENCY are not reserved")
	}
}
