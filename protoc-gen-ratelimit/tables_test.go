package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/algorithms"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/comments"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/costs"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/edition2023"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/edition2024"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/hybrid"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/imported"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/keywords"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/kinds"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/names"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/nested"
	_ "github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/none"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/open"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/packages"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/presence"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/proto2"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/services"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/simple"
	"github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/twofiles"
)

// goldenTables are the functions of all golden files.
var goldenTables = []func() ratelimit.Table{
	algorithms.AlgorithmsLimits, comments.CommentsLimits, costs.CostsLimits,
	edition2023.EditionLimits, edition2024.EditionLimits, hybrid.HybridLimits,
	imported.ImportedLimits, keywords.TypeLimits, kinds.KeysLimits, kinds.WrappersLimits,
	names.MessageLimits_, names.ImportedLimits_, names.EnumLimits__, names.Nested_Limits_,
	names.Value_Limits_, names.Member_Limits_, names.FooLimits, names.FooLimitsLimits, names.LowerCaseLimits,
	nested.NestedLimits, open.NamesLimits, packages.PackagesLimits, presence.PresenceLimits,
	proto2.Proto2Limits, services.MixedLimits, services.OnlyDefaultLimits, services.OnlyExemptLimits,
	services.NoMethodsLimits, simple.PaymentsLimits, twofiles.FirstLimits, twofiles.SecondLimits,
}

// merged returns all golden tables as one, which a server could use.
func merged(tb testing.TB) ratelimit.Table {
	tb.Helper()
	var tables []ratelimit.Table
	for _, function := range goldenTables {
		tables = append(tables, function())
	}
	table, err := ratelimit.Merge(tables...)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// TestTablesMerge lets the library check all that was generated.
func TestTablesMerge(t *testing.T) {
	table := merged(t)
	if len(table) < 100 {
		t.Errorf("%d methods", len(table))
	}
	for _, m := range table {
		requestOf(t, m.Name) // the method exists by this name
	}
}

// TestTablesAreNew changes a table and reads another one.
func TestTablesAreNew(t *testing.T) {
	simple.PaymentsLimits()[0].Rules[0].Rate.Count = 0
	simple.PaymentsLimits()[0].Rules[0].Key[0].Name = "changed"
	rule := simple.PaymentsLimits()[0].Rules[0]
	if rule.Rate.Count != 10 || rule.Key[0].Name != "" {
		t.Errorf("a table that was changed came back: %+v", rule)
	}
}

// method returns the limits of a method of a golden file: "simple.Payments/Charge".
func method(t *testing.T, name string) ratelimit.Method {
	t.Helper()
	for _, m := range merged(t) {
		if m.Name == "/golden."+name {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return ratelimit.Method{}
}

// requestOf returns an empty request of a method.
func requestOf(tb testing.TB, name string) proto.Message {
	tb.Helper()
	full := strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(full))
	if err != nil {
		tb.Fatal(err)
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		tb.Fatalf("%s is a %T", full, d)
	}
	messageType, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		tb.Fatal(err)
	}
	return messageType.New().Interface()
}
