package breaker

import (
	"sync"
	"testing"
	"time"
)

func TestRollingCount(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	r := rolling{period: 10 * time.Millisecond, start: start}
	for _, step := range []struct {
		at, add int
		sum     uint64
	}{
		{0, 2, 2}, {9, 1, 3}, {10, 4, 7}, {99, 0, 7}, {100, 0, 4}, {105, 1, 5}, {110, 0, 1}, {204, 0, 0}, {1205, 3, 3}, {1e6, 0, 0},
	} {
		for range step.add {
			r.add(at(step.at))
		}
		if n := r.sum(at(step.at)); n != step.sum {
			t.Errorf("after %dms the sum is %d, want %d", step.at, n, step.sum)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				r.add(at(2e6))
			}
		})
	}
	wg.Wait()
	if n := r.sum(at(2e6)); n != 8000 {
		t.Errorf("8 callers count %d, want 8000", n)
	}
	r.clear()
	if n := r.sum(at(2e6)); n != 0 {
		t.Errorf("cleared, but %d", n)
	}
}

// A count for a slot that is of a later time already takes nothing from that.
func TestRollingKeepsTheLaterTime(t *testing.T) {
	start := time.Now()
	r := rolling{period: time.Second, start: start}
	late, later := start.Add(3*time.Second), start.Add((3+slots)*time.Second)
	r.add(later)
	r.add(later)
	r.add(late)
	if got := r.sum(later); got != 2 {
		t.Errorf("the sum is %d, want 2", got)
	}
}
