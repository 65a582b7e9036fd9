package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaults compares the error of each file of testdata/faults with the text
// beside it: every mistake, by its place, with its value and what was wanted.
func TestFaults(t *testing.T) {
	total := 0
	for _, file := range protoFiles(t, filepath.Join(testdata, "faults")) {
		name := strings.TrimSuffix(file, ".proto")
		if name == "bucket_first" || name == "clash_b" {
			continue // generated with another one
		}
		t.Run(name, func(t *testing.T) {
			files := []string{"faults/" + file}
			if name == "clash_a" {
				files = append(files, "faults/clash_b.proto")
			}
			_, got := generate(t, compile(t, files...))
			golden := filepath.Join(testdata, "faults", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got+"\n" != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			for line := range strings.SplitSeq(got, "\n") {
				total++
				if !faultLine.MatchString(line) {
					t.Errorf("not file:line: place: field is value, want ...: %s", line)
				}
			}
		})
	}
	t.Logf("%d faults", total)
}

var faultLine = regexp.MustCompile(
	`^faults/[a-z_]+\.proto:\d+: [\w.]+: ((rule "[a-z0-9-]+"|(service_|default_)?rule #\d+): )?\w+ is .+, want .+`)
