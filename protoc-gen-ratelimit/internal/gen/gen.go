// Package gen is protoc-gen-ratelimit: it reads the annotations of a run, checks
// them, and writes the tables of each file.
//
// Every fault of a run is collected, and only a run without faults is written.
// What is written of a file depends on that file and on what it imports, never
// on the other files of the run.
package gen

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
)

// Options are the parameters of a run beside those of protogen.
type Options struct {
	// RequireAll makes a method that no rule meets, and that is not exempt, a
	// fault.
	RequireAll bool
}

// Generate adds the generated files of a run to p. Its error has a line for
// each fault, sorted by file and line.
func Generate(p *protogen.Plugin, o Options) error {
	var found faults
	files := readFiles(p, &found)
	nameFunctions(files, &found)
	slices.SortStableFunc(files, byRole)
	checkBuckets(files, &found)
	if o.RequireAll {
		requireAll(files, &found)
	}
	if err := found.err(); err != nil {
		return err
	}
	for _, f := range files {
		if f.proto.Generate {
			writeFile(p, f)
		}
	}
	return nil
}

// readFiles reads all files of a run in the order of their imports. Imported
// ones are read for what they share with those to generate: their faults are for
// their owners to see.
func readFiles(p *protogen.Plugin, found *faults) []*file {
	newer := newerOptions(p.Request)
	var files []*file
	for _, f := range p.Files {
		if f.Generate {
			files = append(files, readFile(f, newer, found))
		} else {
			files = append(files, readFile(f, newer, new(faults)))
		}
	}
	return files
}

// byRole sorts imported files before those to generate, and each by path: of two
// rules that do not agree, the one to change is then in a file of the run.
func byRole(a, b *file) int {
	if a.proto.Generate != b.proto.Generate {
		if b.proto.Generate {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.path, b.path)
}
