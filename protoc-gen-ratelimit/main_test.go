package main

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	ratelimitpb "github.com/protolimit/ratelimit/proto/ratelimit"
)

// asPlugin makes the test's binary the plugin.
const asPlugin = "TEST_AS_PROTOC_GEN_RATELIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
		return
	}
	// Before flags are parsed, which may say otherwise.
	if raceDetector() {
		if err := flag.Set("rapid.checks", "40"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// run runs the plugin as a program of its own, and returns what it wrote and its
// exit code.
func run(t *testing.T, stdin []byte, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), asPlugin+"=1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), 0
}

func TestByHand(t *testing.T) {
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
		stdout, stderr, code := run(t, nil, test.args...)
		if !strings.HasPrefix(stdout, test.stdout) || !strings.HasPrefix(stderr, test.stderr) ||
			test.stdout == "" && stdout != "" || test.stderr == "" && stderr != "" || code != test.code {
			t.Errorf("%q: wrote %q and %q, exit code %d", test.args, stdout, stderr, code)
		}
	}
}

// TestAsPlugin speaks to the plugin as compilers do.
func TestAsPlugin(t *testing.T) {
	respond := func(request *pluginpb.CodeGeneratorRequest) *pluginpb.CodeGeneratorResponse {
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := run(t, wire)
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
	if out, err := goCommand(t, "vet", slices.Sorted(maps.Keys(packages))...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(packages) < 20 || !packages["./testdata/simple"] {
		t.Errorf("vetted %v", packages)
	}
}
