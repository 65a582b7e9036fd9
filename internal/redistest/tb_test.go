package redistest_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// recorder is a test that records how it would have ended.
type recorder struct {
	testing.TB

	got string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Skipf(string, ...any)      { r.got += "skip" }
func (r *recorder) Fatalf(f string, a ...any) { r.got += "fatal"; r.Logf(f, a...) }

func TestRequire(t *testing.T) {
	t.Setenv("REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	for ci, want := range map[string]string{"": "skip", "false": "skip", "true": "fatal", "1": "fatal"} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		redistest.Require(r)
		// A Fatalf that returns goes on to skip.
		if r.got != want && r.got != want+"skip" {
			t.Errorf("without a server, CI=%q: got %q, want %q", ci, r.got, want)
		}
	}
	t.Setenv("REDIS_SERVER", "/somewhere/valkey-server")
	r := &recorder{TB: t}
	redistest.Require(r)
	if r.got != "" {
		t.Errorf("with a named server: got %q, want nothing", r.got)
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	var p redistest.Program
	s := redistest.Start(&p)
	s.Do("SET", "k", "v")
	dir := p.TempDir()
	p.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("temporary directory after Close: %v, want that it does not exist", err)
	}
	if pid := s.PID(); pid != 0 {
		t.Errorf("server after Close: runs as %d", pid)
	}
	order := ""
	for i := range 3 {
		p.Cleanup(func() { order += strconv.Itoa(i) })
	}
	p.Close()
	if order != "210" {
		t.Errorf("order of cleanups: got %s, want 210", order)
	}
}
