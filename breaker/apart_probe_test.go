package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
)

// In half-open a call across shards is a probe of each, and each breaker hears of
// its own shard only.
func TestProbesAcrossShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		one, two := windowOf(t, "one", 1000), windowOf(t, "two", 1000)
		s.down["one"], s.down["two"] = true, true
		granted(t, b, 30, one, two)
		time.Sleep(2 * time.Second)
		s.down["one"] = false
		granted(t, b, 1, one, two)
		if stateOf(b, "one") != gobreaker.StateHalfOpen || stateOf(b, "two") != gobreaker.StateOpen {
			t.Errorf("after a probe of which one part failed breakers are\n%v\nwant that of two open again", b.Status())
		}
		granted(t, b, 2, one, two)
		if stateOf(b, "one") != gobreaker.StateClosed {
			t.Errorf("after three probes breakers are\n%v\nwant that of one closed", b.Status())
		}
	})
}

// A part that is slow is a probe that failed, and the next ones are not.
func TestSlowProbesAcrossShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSharded(t)
		b := newBreaker(t, s, breaker.WithSlow(5*time.Millisecond))
		one, two := windowOf(t, "one", 1000), windowOf(t, "two", 1000)
		s.breakWith(errDown)
		granted(t, b, 30, one, two)
		time.Sleep(2 * time.Second)
		s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			if charges[0].Limit == two {
				time.Sleep(6 * time.Millisecond)
			}
			return nil
		})
		granted(t, b, 1, one, two)
		if stateOf(b, "one") != gobreaker.StateHalfOpen || stateOf(b, "two") != gobreaker.StateOpen {
			t.Errorf("after a probe of which one part was slow breakers are\n%v\nwant that of two open again", b.Status())
		}
		s.breakWith(nil)
		time.Sleep(2 * time.Second)
		granted(t, b, 3, one, two)
		if stateOf(b, "one") != gobreaker.StateClosed || stateOf(b, "two") != gobreaker.StateClosed {
			t.Errorf("after three quick ones breakers are\n%v\nwant them closed", b.Status())
		}
	})
}

// A call that the breaker of one shard keeps back is no probe of another: that is
// asked afterwards, and once.
func TestCallKeptBackIsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		one, two := windowOf(t, "one", 1000), windowOf(t, "two", 1000)
		s.down["one"], s.down["two"] = true, true
		granted(t, b, 30, one, two)
		time.Sleep(2 * time.Second)
		release := make(chan struct{})
		s.breakBy(func(_ context.Context, charges []ratelimit.Charge) error {
			if charges[0].Limit == two {
				<-release
			}
			return nil
		})
		for range 3 {
			go func() { _, _ = take(b, two) }()
		}
		synctest.Wait()
		s.reached()
		for i, want := range []gobreaker.State{gobreaker.StateHalfOpen, gobreaker.StateHalfOpen, gobreaker.StateClosed} {
			if n := granted(t, b, 1, one, two); n != 1 || s.reached() != 1 || stateOf(b, "one") != want {
				t.Errorf("after %d calls breakers are\n%v\nwant that of one %v", i+1, b.Status(), want)
			}
		}
		close(release)
		synctest.Wait()
	})
}

// The fallback follows what shards say of calls that are about several.
func TestFallbackIsWarmAcrossShards(t *testing.T) {
	s, b := newSharded(t)
	one, two := windowOf(t, "one", 100), windowOf(t, "two", 1000)
	granted(t, b, 80, one, two)
	s.breakWith(errLost)
	if n := granted(t, b, 50, one, two); n != 20 {
		t.Errorf("%d are granted, want the 20 that were left", n)
	}
}

// What is given back is waited for as long as the call has time, and no longer.
func TestGivingBackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newSharded(t)
		s.breakBy(func(context.Context, []ratelimit.Charge) error {
			time.Sleep(6 * time.Millisecond)
			return nil
		})
		s.hangAdjust = true
		start := time.Now()
		if n := granted(t, b, 1, windowOf(t, "one", 10), windowOf(t, "none", 0)); n != 0 || time.Since(start) != 10*time.Millisecond {
			t.Errorf("a refused call ends after %v, want the budget", time.Since(start))
		}
	})
}
