package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// compileNewer compiles a service against an options file that a later version
// of this plugin might have.
func compileNewer(t *testing.T, service string) *pluginpb.CodeGeneratorRequest {
	t.Helper()
	options := ratelimitpb.Source()
	for before, after := range map[string]string{
		"optional OnUnavailable on_unavailable = 7;": "optional OnUnavailable on_unavailable = 7; optional string max_wait = 8;",
		"reserved 6;":                 "CONCURRENCY = 6;",
		"reserved \"CONCURRENCY\";":   "",
		"DENY = 3;":                   "DENY = 3; QUEUE = 4;",
		"optional bool exempt = 3;":   "optional bool exempt = 3; repeated string settle_on = 4;",
		"Method method = 72831;":      "Method method = 72831; repeated Rule message_rule = 72834;",
		"repeated Rule default_rule ": "string plan = 72835; repeated Rule default_rule ",
	} {
		if !strings.Contains(options, before) {
			t.Fatalf("options.proto has no %q", before)
		}
		options = strings.Replace(options, before, after, 1)
	}
	files := map[string]string{
		"ratelimit/options.proto": options,
		"newer.proto": `syntax = "proto3"; package newer; import "ratelimit/options.proto";
option go_package = "example.com/newer";
message M {}
` + service,
	}
	return compileFrom(t, &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(files),
	}, "newer.proto")
}

// TestNewerOptions uses what this plugin does not know: it must not be ignored.
func TestNewerOptions(t *testing.T) {
	const newEnough = "a protoc-gen-ratelimit as new as the ratelimit/options.proto that states it"
	tests := []struct{ service, want string }{
		{
			`service S { rpc A(M) returns (M) { option (ratelimit.rule) = { name: "a" rate: "1/s" max_wait: "1s" }; } }`,
			`newer.proto:4: S.A: rule "a": max_wait is unknown, want ` + newEnough,
		},
		{
			`service S { rpc A(M) returns (M) { option (ratelimit.rule) = { name: "a" rate: "1/s" algorithm: CONCURRENCY }; } }`,
			`newer.proto:4: S.A: rule "a": algorithm is 6, want one of TOKEN_BUCKET, LEAKY_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG, or ` + newEnough,
		},
		{
			`service S { rpc A(M) returns (M) { option (ratelimit.rule) = { name: "a" rate: "1/s" on_unavailable: QUEUE }; } }`,
			`newer.proto:4: S.A: rule "a": on_unavailable is 4, want one of LOCAL, ALLOW, DENY, or ` + newEnough,
		},
		{
			`service S { rpc A(M) returns (M) { option (ratelimit.method).settle_on = "OK"; } }`,
			`newer.proto:4: S.A: settle_on is unknown, want ` + newEnough,
		},
		{
			`service S { rpc A(M) returns (M) { option (ratelimit.message_rule) = { name: "a" rate: "1/s" }; } }`,
			`newer.proto:4: S.A: (ratelimit.message_rule) is unknown, want ` + newEnough,
		},
		{
			`service S { option (ratelimit.plan) = "free"; rpc A(M) returns (M); }`,
			`newer.proto:4: S: (ratelimit.plan) is unknown, want ` + newEnough,
		},
		// What it knows still works.
		{`service S { rpc A(M) returns (M) { option (ratelimit.rule) = { name: "a" rate: "1/s" }; } }`, ""},
	}
	for _, test := range tests {
		if _, got := generate(t, compileNewer(t, test.service)); got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.service, got, test.want)
		}
	}
}

// TestNewerOptionsImportedForOptionsOnly has no options file among the imports,
// as with import option of edition 2024.
func TestNewerOptionsImportedForOptionsOnly(t *testing.T) {
	request := compileNewer(t, `service S { rpc A(M) returns (M) { option (ratelimit.message_rule) = { name: "a" rate: "1/s" }; } }`)
	file := request.GetProtoFile()[len(request.GetProtoFile())-1]
	file.OptionDependency, file.Dependency = file.GetDependency(), nil
	_, got := generate(t, request)
	if !strings.Contains(got, "(ratelimit.message_rule) is unknown") {
		t.Errorf("got %q", got)
	}
}

// TestVendoredOptions has the options file at another path, and a file of the
// user in a package of the same name.
func TestVendoredOptions(t *testing.T) {
	files := map[string]string{
		"third_party/limits.proto": ratelimitpb.Source(),
		"owner.proto": `syntax = "proto3"; package ratelimit; import "google/protobuf/descriptor.proto";
option go_package = "example.com/owner";
extend google.protobuf.MethodOptions { string owner = 50001; }`,
		"service.proto": `syntax = "proto3"; package vendored; import "third_party/limits.proto"; import "owner.proto";
option go_package = "example.com/vendored";
message M {}
service S { rpc A(M) returns (M) { option (ratelimit.owner) = "me"; option (ratelimit.rule) = { name: "a" rate: "1/s" }; } }`,
	}
	request := compileFrom(t, &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(files),
	}, "service.proto")
	got, fault := generate(t, request)
	if fault != "" || !strings.Contains(got["example.com/vendored/service_ratelimit.pb.go"], "func SLimits()") {
		t.Errorf("fault %q, files %v", fault, got)
	}
}

// TestNoPositions has a request without source code info.
func TestNoPositions(t *testing.T) {
	request := compile(t, "faults/many.proto")
	for _, f := range request.GetProtoFile() {
		f.SourceCodeInfo = nil
	}
	const want = "faults/many.proto: S.Many: rules is 33, want at most 32 that meet on one method"
	if _, got := generate(t, request); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestImportedFaultsAreTheirOwners generates only a file that imports a faulty
// one.
func TestImportedFaultsAreTheirOwners(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testdata, "faults", "rate.proto"))
	if err != nil {
		t.Fatal(err)
	}
	request := compileFrom(t, &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{
		"ratelimit/options.proto": ratelimitpb.Source(),
		"rate.proto":              string(text),
		"own.proto": `syntax = "proto3"; package own; import "rate.proto"; import "ratelimit/options.proto";
option go_package = "example.com/own";
service S { rpc A(faults.rate.Request) returns (faults.rate.Empty) { option (ratelimit.rule) = { name: "a" rate: "1/s" }; } }`,
	})}, "own.proto")
	if _, fault := generate(t, request); fault != "" {
		t.Errorf("fault: %s", fault)
	}
}
