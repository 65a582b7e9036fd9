package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files, and what protoc-gen-go makes beside them")

// cases are the directories of testdata whose output is golden.
func cases(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(testdata)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "faults" {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestGolden compares what is generated for each case with the files beside it.
// Those files are packages that other tests import, so they also compile.
func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			if *update {
				buildImage(t, name)
			}
			request := load(t, name)
			got, fault := generate(t, request, "paths=source_relative")
			if fault != "" {
				t.Fatalf("generate: %s", fault)
			}
			if *update {
				rewrite(t, name, got)
			}
			want := golden(t, name)
			for file := range maps.Keys(got) {
				if got[file] != want[file] {
					t.Errorf("%s differs; -update rewrites it. Got:\n%s", file, got[file])
				}
				delete(want, file)
			}
			for file := range want {
				t.Errorf("%s is not generated any more", file)
			}
		})
	}
}

// golden returns the golden files of a case by the names that the plugin gives
// them.
func golden(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range goFiles(t, name) {
		if strings.HasSuffix(path, "_ratelimit.pb.go") {
			content, err := os.ReadFile(filepath.Join(testdata, path))
			if err != nil {
				t.Fatal(err)
			}
			files[path] = string(content)
		}
	}
	return files
}

// goFiles returns the generated files of a case.
func goFiles(t *testing.T, name string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(testdata, name), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".pb.go") {
			relative, _ := filepath.Rel(testdata, path)
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// withGRPC are the cases whose names could meet those of protoc-gen-go-grpc.
var withGRPC = []string{"names", "keywords", "packages"}

// rewrite replaces all generated files of a case.
func rewrite(t *testing.T, name string, ours map[string]string) {
	t.Helper()
	for _, path := range goFiles(t, name) {
		if err := os.Remove(filepath.Join(testdata, path)); err != nil {
			t.Fatal(err)
		}
	}
	request := load(t, name)
	files := maps.Clone(ours)
	maps.Copy(files, runTool(t, "protoc-gen-go", request, "paths=source_relative"))
	if slices.Contains(withGRPC, name) {
		maps.Copy(files, runTool(t, "protoc-gen-go-grpc", request, "paths=source_relative"))
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(testdata, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
