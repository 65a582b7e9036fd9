package goredis_test

import (
	"os"
	"testing"
	"time"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// fleetTime is how long fleets call, RATELIMIT_FLEET_TIME if that is set.
func fleetTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("RATELIMIT_FLEET_TIME")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Many processes share one bucket, and get all that it grants but no more.
func TestFleetSharesOneLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of many processes")
	}
	s := redistest.Start(t)
	w := workload{Goroutines: 64, Addr: s.Addr, Budget: 20 * time.Second, Rate: 1000, Burst: 500}
	f := startFleet(t, 8, w)
	time.Sleep(fleetTime(t)) // the time to measure
	got := f.stop()
	bound := got.bound(w, 0)
	t.Logf("granted %d and refused %d in %v by Redis's clock, at most %.1f may be granted: %.2f%%",
		len(got.Granted), got.Refused, got.elapsed(), bound, 100*float64(len(got.Granted))/bound)
	if granted := float64(len(got.Granted)); granted > bound || granted < 0.99*bound {
		t.Errorf("granted %.0f, want 99%% to 100%% of %.1f", granted, bound)
	}
	got.checkWindows(t, w)
	for text, n := range got.Away {
		t.Errorf("%d calls are answered by %s, want none", n, text)
	}
}
