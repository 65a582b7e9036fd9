package goredis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// TestBugsAreLoud: what waiting does not cure is logged with what to do, once for
// many calls.
func TestBugsAreLoud(t *testing.T) {
	s := redistest.Start(t)
	s.Do("CONFIG", "SET", "requirepass", "secret")
	defer s.Do("CONFIG", "SET", "requirepass", "")
	for password, want := range map[string]string{"": "NOAUTH", ":wrong@": "WRONGPASS"} {
		book := &logbook{}
		b, err := Open("redis://"+password+s.Addr, WithBudget(5*time.Second), WithLogger(book.logger()))
		if err != nil {
			t.Fatal(err)
		}
		l := limit(t, "b", 10, time.Hour)
		for range 20 {
			if err := b.Take(context.Background(), charge(l, "alice", 1), make([]ratelimit.Verdict, 1)); !errors.Is(err, ratelimit.ErrBackendBug) {
				t.Errorf("%s: %v, want a bug", want, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		text := book.String()
		if strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, want) || !strings.Contains(text, "the user and the password") || strings.Contains(text, "ACL SETUSER") {
			t.Errorf("%s: the log is\n%s\nwant one error with its remedy", want, text)
		}
	}
}
