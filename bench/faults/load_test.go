package faults

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/protolimit/ratelimit"
)

// A slow backend takes its time for each call.
type slow struct {
	ratelimit.Backend
	takes time.Duration
	err   error
}

func (s *slow) Take(_ context.Context, _ []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	time.Sleep(s.takes)
	verdicts[0].Allowed = true
	return s.err
}

// runLoad has callers decide through a backend for a time.
func runLoad(t *testing.T, b *slow, d time.Duration) (*measures, error) {
	t.Helper()
	l, err := newLoad(b)
	if err != nil {
		t.Fatal(err)
	}
	l.start()
	time.Sleep(d)
	l.end()
	return l.measure()
}

// Calls keep their schedule as long as they can, and are measured from it where
// they cannot.
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name      string
		takes     time.Duration
		perSecond float64
		due       time.Duration // of the worst
		late      float64
	}{
		{name: "as scheduled", takes: 10 * time.Millisecond, perSecond: 4000, due: 10 * time.Millisecond},
		// Each call begins 4 ms later than the one before.
		{name: "too slow", takes: 20 * time.Millisecond, perSecond: 3200, due: 216 * time.Millisecond, late: 0.98},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := runLoad(t, &slow{takes: tt.takes}, time.Second-time.Microsecond)
				if err != nil {
					t.Fatal(err)
				}
				if got := quantile(m.took, 1); got != in(tt.takes) {
					t.Errorf("the slowest call took %v ms, want %v", got, tt.takes)
				}
				if got := quantile(m.due, 1); got != in(tt.due) {
					t.Errorf("the slowest call ended %v ms after it was due, want %v", got, tt.due)
				}
				if m.perSecond < 0.97*tt.perSecond || m.perSecond > 1.03*tt.perSecond || m.late < tt.late-0.01 || m.late > tt.late {
					t.Errorf("%v decisions a second, %v late; want about %v and %v", m.perSecond, m.late, tt.perSecond, tt.late)
				}
			})
		})
	}
}

func TestLoadFails(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		if _, err := runLoad(t, &slow{err: broken}, time.Second); !errors.Is(err, broken) {
			t.Errorf("a load of calls that fail: %v, want broken", err)
		}
	})
}

func TestQuantile(t *testing.T) {
	times := make([]time.Duration, 1000)
	for i := range times {
		times[i] = time.Duration(i+1) * time.Millisecond
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := quantile(times, q); got != want {
			t.Errorf("quantile %v = %v ms, want %v", q, got, want)
		}
	}
}
