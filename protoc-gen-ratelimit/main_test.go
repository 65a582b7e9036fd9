package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// build builds the plugin, as users have it.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "protoc-gen-ratelimit")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// run runs a program and returns what it wrote and its exit code.
func run(t *testing.T, stdin []byte, binary string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), 0
}

func TestByHand(t *testing.T) {
	binary := build(t)
	tests := []struct {
		args           []string
		stdout, stderr string // beginnings
		code           int
	}{
		{[]string{"--print-options"}, ratelimitpb.Source(), "", 0},
		{[]string{"--version"}, "protoc-gen-ratelimit v", "", 0},
		{[]string{"--help"}, "protoc-gen-ratelimit is a plugin", "", 0},
		{[]string{"-h"}, "protoc-gen-ratelimit is a plugin", "", 0},
		{[]string{"--nope"}, "", `protoc-gen-ratelimit: unknown arguments ["--nope"]`, 2},
		{[]string{"--version", "more"}, "", `protoc-gen-ratelimit: unknown arguments ["--version" "more"]`, 2},
		// Without a compiler: stdin is /dev/null here, a terminal elsewhere.
		{nil, "", "protoc-gen-ratelimit is a plugin", 2},
	}
	for _, test := range tests {
		stdout, stderr, code := run(t, nil, binary, test.args...)
		if !strings.HasPrefix(stdout, test.stdout) || !strings.HasPrefix(stderr, test.stderr) ||
			test.stdout == "" && stdout != "" || test.stderr == "" && stderr != "" || code != test.code {
			t.Errorf("%q: wrote %q and %q, exit code %d", test.args, stdout, stderr, code)
		}
	}
}

// TestAsPlugin speaks to the built plugin as compilers do.
func TestAsPlugin(t *testing.T) {
	binary := build(t)
	respond := func(request *pluginpb.CodeGeneratorRequest) *pluginpb.CodeGeneratorResponse {
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := run(t, wire, binary)
		if code != 0 || stderr != "" {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		response := &pluginpb.CodeGeneratorResponse{}
		if err := proto.Unmarshal([]byte(stdout), response); err != nil {
			t.Fatal(err)
		}
		return response
	}
	good := respond(compile(t, "simple/simple.proto"))
	if good.Error != nil || len(good.GetFile()) != 1 {
		t.Errorf("error %q, %d files", good.GetError(), len(good.GetFile()))
	}
	const features = pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL | pluginpb.CodeGeneratorResponse_FEATURE_SUPPORTS_EDITIONS
	if good.GetSupportedFeatures() != uint64(features) ||
		good.GetMinimumEdition() != int32(descriptorpb.Edition_EDITION_PROTO2) ||
		good.GetMaximumEdition() != int32(descriptorpb.Edition_EDITION_2024) {
		t.Errorf("features %b, editions %d to %d", good.GetSupportedFeatures(), good.GetMinimumEdition(), good.GetMaximumEdition())
	}
	// Faults are an answer, not a failure, so that compilers show them.
	bad := respond(compile(t, "simple/simple.proto", "faults/rate.proto"))
	if !strings.Contains(bad.GetError(), `faults/rate.proto:15: S.Bad: rule "a": rate is ""`) || len(bad.GetFile()) != 0 {
		t.Errorf("error %q, %d files", bad.GetError(), len(bad.GetFile()))
	}
}

// TestParams compares where files go with where protoc-gen-go puts its own.
func TestParams(t *testing.T) {
	const known = "want paths, module, M..., annotate_code, default_api_level, apilevelM... or require"
	const path = "github.com/protolimit/ratelimit/protoc-gen-ratelimit/testdata/simple/simple_ratelimit.pb.go"
	tests := []struct{ params, file, fault string }{
		{"", path, ""},
		{"paths=import", path, ""},
		{"paths=source_relative", "simple/simple_ratelimit.pb.go", ""},
		{"module=github.com/protolimit/ratelimit", strings.TrimPrefix(path, "github.com/protolimit/ratelimit/"), ""},
		{"module=example.com/other", "", `generated file does not match prefix "example.com/other"`},
		{"module=github.com/protolimit/ratelimit,paths=source_relative", "", "cannot use module= with paths=source_relative"},
		{"Msimple/simple.proto=example.com/elsewhere", "example.com/elsewhere/simple_ratelimit.pb.go", ""},
		{"default_api_level=API_OPAQUE", path, ""},
		{"apilevelMsimple/simple.proto=API_HYBRID", path, ""},
		{"default_api_level=API_SHUT", "", `unknown API level "API_SHUT"`},
		{"path=source_relative", "", `unknown parameter "path": ` + known},
		{"require", "", `require is "": want all`},
		{"require=some", "", `require is "some": want all`},
		{"plugins=grpc", "", `unknown parameter "plugins": ` + known},
	}
	for _, test := range tests {
		files, fault := generate(t, compile(t, "simple/simple.proto"), test.params)
		if test.fault != "" {
			if !strings.Contains(fault, test.fault) {
				t.Errorf("%q: got error %q, want %q", test.params, fault, test.fault)
			}
			continue
		}
		if _, ok := files[test.file]; !ok || len(files) != 1 || fault != "" {
			t.Errorf("%q: error %q, files %v", test.params, fault, files)
		}
	}
}

// TestAPILevelParams generates an open file as opaque, by parameter.
func TestAPILevelParams(t *testing.T) {
	for _, param := range []string{"default_api_level=API_OPAQUE", "apilevelMpresence/presence.proto=API_OPAQUE"} {
		files, fault := generate(t, compile(t, "presence/presence.proto"), "paths=source_relative", param)
		got := files["presence/presence_ratelimit.pb.go"]
		if fault != "" || !strings.Contains(got, "if !m.HasMemberInt() {") || strings.Contains(got, "m.Member.(") {
			t.Errorf("%s: error %q, got:\n%s", param, fault, got)
		}
	}
}

// TestVet vets the golden packages, which ./... leaves out.
func TestVet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	packages := map[string]bool{}
	for _, name := range cases(t) {
		for _, file := range goFiles(t, name) {
			packages["./"+filepath.ToSlash(filepath.Join(testdata, filepath.Dir(file)))] = true
		}
	}
	args := []string{"vet"}
	for name := range packages {
		args = append(args, name)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(packages) < 20 || !packages["./testdata/simple"] {
		t.Errorf("vetted %v", packages)
	}
}
