package main

import (
	"os"
	"strings"
	"testing"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// TestQuick runs every experiment and writes the page. Nothing here is about
// how long anything takes.
func TestQuick(t *testing.T) {
	redistest.Require(t)
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("README.md", page, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log strings.Builder
	if err := run([]string{"-quick", "-write"}, &out, &log); err != nil {
		t.Fatalf("run: %v\n%s", err, log.String())
	}
	written, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range experiments() {
		for i := range e.Rows {
			line := "| " + e.Rows[i].Label
			if !strings.Contains(out.String(), line) || !strings.Contains(string(written), line) {
				t.Errorf("%s: no row %q in the output or in the page:\n%s", e.ID(), e.Rows[i].Label, out.String())
			}
		}
		if !strings.Contains(log.String(), e.ID()) {
			t.Errorf("%s: not in the log:\n%s", e.ID(), log.String())
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"nothing matches", "-run=nothing", "-run matches none of inprocess/hot,"},
		{"no pattern", "-run=(", "missing closing )"},
		{"no rounds", "-rounds=0", "-rounds is 0, want 1 or more"},
		{"part of a table", "-quick -run=inprocess/rules -write", `section "inprocess" lacks inprocess/hot`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, log strings.Builder
			err := run(strings.Fields(tt.args), &out, &log)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%s) = %v, want an error with %q", tt.args, err, tt.want)
			}
		})
	}
}
