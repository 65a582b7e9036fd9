package redistest_test

import (
	"slices"
	"testing"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestMonitor(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*redistest.Server{
		"own":    redistest.Start(t, redistest.Password("secret")),
		"shared": redistest.Shared(t),
	} {
		m := redistest.Monitor(t, s)
		odd := "a \"quoted\" [key]\r\n\x00\xff"
		s.Do("SET", odd, "v")
		s.Do("EVAL", "redis.call('TIME') redis.call('GET', KEYS[1]) redis.call('SET', 'hidden', 1) return 1", 1, "k")
		got := m.Take()
		if len(got) != 5 || !slices.Equal(got[0].Args, []string{"SET", odd, "v"}) || got[0].Script() || !got[2].Script() || got[0].DB != s.DB() {
			t.Errorf("%s: got %+v, want SET, EVAL and three commands of the script", name, got)
		}
		if keys := s.Undeclared(got); !slices.Equal(keys, []string{"hidden"}) {
			t.Errorf("%s: undeclared keys: got %q, want hidden", name, keys)
		}
		s.Do("PING")
		if got := m.Take(); len(got) != 1 || !got[0].Is("ping") {
			t.Errorf("%s: got %+v, want PING", name, got)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	before := s.Stats()
	for range 3 {
		s.Do("EVAL", "for i = 1, 1000000 do end redis.call('GET', KEYS[1])", 1, "k")
	}
	d := s.Stats().Since(before)
	if d.Commands["eval"].Calls != 3 || d.Commands["get"].Calls != 3 || d.Commands["set"].Calls != 0 {
		t.Errorf("calls: got %+v, want 3 of eval and get", d.Commands)
	}
	if d.CPU <= 0 || d.Commands["eval"].Time <= 0 || d.Connections != 0 {
		t.Errorf("got %+v, want some CPU and time, and no connection", d)
	}
}
