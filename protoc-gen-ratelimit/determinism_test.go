package main

import (
	"maps"
	"slices"
	"testing"
)

// TestDeterminism generates four files again and again, in every order, and each
// alone: what is generated of a file depends on that file.
func TestDeterminism(t *testing.T) {
	files := []string{"names/names.proto", "imported/imported.proto", "twofiles/first.proto", "twofiles/second.proto"}
	request := compile(t, files...)
	want, fault := generate(t, request, "paths=source_relative")
	if fault != "" || len(want) != len(files) {
		t.Fatalf("fault %q, %d files", fault, len(want))
	}
	for range 10 {
		if got, _ := generate(t, request, "paths=source_relative"); !maps.Equal(got, want) {
			t.Fatal("output differs when generated again")
		}
	}
	for order := range permutations(files) {
		request.FileToGenerate = order
		if got, _ := generate(t, request, "paths=source_relative"); !maps.Equal(got, want) {
			t.Errorf("%v: output differs", order)
		}
	}
	together := map[string]string{}
	for _, file := range files {
		got, _ := generate(t, compile(t, file), "paths=source_relative")
		maps.Copy(together, got)
	}
	if !maps.Equal(together, want) {
		t.Error("output differs if each file is generated alone")
	}
}

// TestFaultsInAnyOrder has faults in several files.
func TestFaultsInAnyOrder(t *testing.T) {
	files := []string{"faults/bucket.proto", "faults/clash_a.proto", "faults/clash_b.proto", "faults/name.proto"}
	request := compile(t, files...)
	_, want := generate(t, request)
	for order := range permutations(files) {
		request.FileToGenerate = order
		if _, got := generate(t, request); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", order, got, want)
		}
	}
}

// permutations yields every order of s.
func permutations(s []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		var from func(k int) bool
		order := slices.Clone(s)
		from = func(k int) bool {
			if k == len(order) {
				return yield(slices.Clone(order))
			}
			for i := k; i < len(order); i++ {
				order[k], order[i] = order[i], order[k]
				if !from(k + 1) {
					return false
				}
				order[k], order[i] = order[i], order[k]
			}
			return true
		}
		from(0)
	}
}
