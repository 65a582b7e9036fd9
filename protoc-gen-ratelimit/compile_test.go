package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const testdata = "testdata"

// compile compiles .proto files of testdata in the test's process, and
// returns the request that a compiler would send for them.
func compile(tb testing.TB, files ...string) *pluginpb.CodeGeneratorRequest {
	tb.Helper()
	return compileFrom(tb, &protocompile.SourceResolver{ImportPaths: []string{testdata, "../proto"}}, files...)
}

func compileFrom(tb testing.TB, sources protocompile.Resolver, files ...string) *pluginpb.CodeGeneratorRequest {
	tb.Helper()
	request, err := link(tb.Context(), sources, files...)
	if err != nil {
		tb.Fatal(err)
	}
	return request
}

// link compiles files and returns the request for them.
func link(ctx context.Context, sources protocompile.Resolver, files ...string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(sources),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	linked, err := compiler.Compile(ctx, files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files}
	added := map[string]bool{}
	var add func(linker.File)
	add = func(f linker.File) {
		if added[f.Path()] {
			return
		}
		added[f.Path()] = true
		imports := f.Imports()
		for i := range imports.Len() {
			add(f.FindImportByPath(imports.Get(i).Path()))
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range linked {
		add(f)
	}
	return request, nil
}

// load returns the request for the .proto files of a case: from image.binpb if
// the case has one, which is for what [compile] does not read.
func load(tb testing.TB, name string) *pluginpb.CodeGeneratorRequest {
	tb.Helper()
	files := protoFiles(tb, filepath.Join(testdata, name))
	for i := range files {
		files[i] = name + "/" + files[i]
	}
	image, err := os.ReadFile(filepath.Join(testdata, name, "image.binpb"))
	if os.IsNotExist(err) {
		return compile(tb, files...)
	}
	if err != nil {
		tb.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &set); err != nil {
		tb.Fatal(err)
	}
	return &pluginpb.CodeGeneratorRequest{FileToGenerate: files, ProtoFile: set.GetFile()}
}

// buildImage rebuilds the image of a case that has one, with the pinned buf.
func buildImage(tb testing.TB, name string) {
	tb.Helper()
	image := filepath.Join(testdata, name, "image.binpb")
	if _, err := os.Stat(image); err != nil {
		return
	}
	cmd := exec.CommandContext(tb.Context(), ".bin/buf", "build", ".",
		"--config", `{"version":"v2","modules":[{"path":"protoc-gen-ratelimit/testdata"},{"path":"proto"}]}`,
		"--path", "protoc-gen-ratelimit/testdata/"+name,
		"--as-file-descriptor-set", "--exclude-source-info", "-o", "protoc-gen-ratelimit/"+image)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("buf build, which make .bin/buf installs: %v\n%s", err, out)
	}
}

// protoFiles returns the .proto files below a directory, sorted.
func protoFiles(tb testing.TB, dir string) []string {
	tb.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".proto" {
			relative, _ := filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// generate sends a request through the plugin, and returns the generated files
// by name, or the run's error.
func generate(tb testing.TB, request *pluginpb.CodeGeneratorRequest, params ...string) (map[string]string, string) {
	tb.Helper()
	request.Parameter = new(strings.Join(params, ","))
	files, err := respond(request)
	if err != nil {
		return nil, err.Error()
	}
	return files, ""
}

// respond encodes a request and decodes it, as it comes to the plugin, and
// answers it.
func respond(request *pluginpb.CodeGeneratorRequest) (map[string]string, error) {
	wire, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	decoded := &pluginpb.CodeGeneratorRequest{}
	if err := proto.Unmarshal(wire, decoded); err != nil {
		return nil, err
	}
	options, run := plugin()
	p, err := options.New(decoded)
	if err != nil {
		return nil, err
	}
	if err := run(p); err != nil {
		p.Error(err)
	}
	return contents(p.Response())
}

// contents returns the files of a response by name, or its error.
func contents(response *pluginpb.CodeGeneratorResponse) (map[string]string, error) {
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	files := map[string]string{}
	for _, f := range response.GetFile() {
		files[f.GetName()] = f.GetContent()
	}
	return files, nil
}

// runTool sends a request through a plugin pinned in tools/protoc.
func runTool(tb testing.TB, name string, request *pluginpb.CodeGeneratorRequest, params ...string) map[string]string {
	tb.Helper()
	request.Parameter = new(strings.Join(params, ","))
	wire, err := proto.Marshal(request)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), "go", "tool", "-modfile=tools/protoc/go.mod", name)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdin = bytes.NewReader(wire)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		tb.Fatal(err)
	}
	files, err := contents(response)
	if err != nil {
		tb.Fatal(err)
	}
	return files
}
