package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// A checker type-checks Go files in the test's process.
type checker struct {
	importer types.Importer
}

// newChecker finds the compiled packages that generated files may import.
func newChecker(t *testing.T) *checker {
	t.Helper()
	out, err := goCommand(t, "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}",
		"..", "../proto/ratelimit", "google.golang.org/protobuf/types/known/wrapperspb",
		"google.golang.org/protobuf/types/gofeaturespb").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = export
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	}
	return &checker{importer.ForCompiler(token.NewFileSet(), "gc", lookup)}
}

// goCommand returns a go command that finds compiled what the test itself needed:
// with the race detector, packages are other ones.
func goCommand(t *testing.T, verb string, args ...string) *exec.Cmd {
	t.Helper()
	all := []string{verb}
	if raceDetector() {
		all = append(all, "-race")
	}
	return exec.CommandContext(t.Context(), "go", append(all, args...)...)
}

// raceDetector tells whether the test runs with the race detector, which makes
// most of it some fifteen times as slow.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// check parses and type-checks the files of one package.
func (c *checker) check(sources []string) error {
	files := token.NewFileSet()
	var parsed []*ast.File
	for i, source := range sources {
		f, err := parser.ParseFile(files, fmt.Sprintf("file%d.go", i), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	_, err := (&types.Config{Importer: c.importer}).Check("example.com/random", files, parsed, nil)
	return err
}

// generateMessages returns the files that protoc-gen-go generates.
func generateMessages(request *pluginpb.CodeGeneratorRequest) ([]string, error) {
	wire, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	decoded := &pluginpb.CodeGeneratorRequest{}
	if err := proto.Unmarshal(wire, decoded); err != nil {
		return nil, err
	}
	p, err := protogen.Options{}.New(decoded)
	if err != nil {
		return nil, err
	}
	for _, f := range p.Files {
		if f.Generate {
			internal_gengo.GenerateFile(p, f)
		}
	}
	var files []string
	for _, f := range p.Response().GetFile() {
		if !strings.HasSuffix(f.GetName(), "_protoopaque.pb.go") { // of another build
			files = append(files, f.GetContent())
		}
	}
	return files, nil
}
