package breaker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
)

// A primary that panics is decided without, is told as the bug that it is, and
// opens the breaker; in half-open it does so again.
func TestPanicsOpen(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPrimary(t)
			backend := ratelimit.Backend(p)
			if beside {
				backend = struct{ ratelimit.Backend }{p} // keeps no budget itself
			}
			b := newBreaker(t, backend)
			l := perHour(t, "b", 1000, ratelimit.Local)
			p.breakBy(func(context.Context, []ratelimit.Charge) error { panic("of the primary") })
			if n := granted(t, b, 30, l); n != 30 || p.reached() != 20 {
				t.Errorf("%d of 30 calls are granted, want all, and 20 that panic", n)
			}
			s := b.Status()
			if s.Shards[0].State != gobreaker.StateOpen || s.Bugs != 20 || !strings.Contains(s.Bug.Error(), "of the primary\n") || s.Ledger != 1 {
				t.Errorf("%v, want an open breaker and 20 bugs with their stack", s)
			}
			time.Sleep(2 * time.Second)
			granted(t, b, 1, l)
			if s := b.Status(); s.Shards[0].State != gobreaker.StateOpen || s.Shards[0].Trips != 2 {
				t.Errorf("after a probe that panicked: %v, want it open again", s)
			}
			p.breakWith(nil)
			time.Sleep(2 * time.Second)
			granted(t, b, 3, l)
			synctest.Wait()
			if s := b.Status(); s.Shards[0].State != gobreaker.StateClosed {
				t.Errorf("after three probes: %v, want it closed", s)
			}
		})
	}
}

// So is one that panics when it is told what was granted.
func TestPanicInSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrimary(t)
		p.adjusting = func(context.Context) { panic("of the primary") }
		b := newBreaker(t, p)
		l := perHour(t, "b", 1000, ratelimit.Local)
		trip(t, p, b, l)
		p.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, l)
		synctest.Wait()
		if s := b.Status(); s.Dropped != 20 || s.Ledger != 0 {
			t.Errorf("%v, want 20 units dropped", s)
		}
	})
}
