package harness

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	decisions := make([]int, 2)
	work := func(i int) Batch {
		return func(n int) error {
			decisions[i] += n
			return nil
		}
	}
	slice := Slice{Warm: 100 * time.Microsecond, Parts: 2}
	nanos, objects, err := Time(slice, work(0), work(1))
	if err != nil || objects != 0 || decisions[0] == 0 || decisions[1] == 0 {
		t.Errorf("Time = %v ns, %v objects, %v, want 0 objects; %v decisions were made", nanos, objects, err, decisions)
	}
	var kept *[4]int
	_, objects, err = Time(slice, func(n int) error {
		for range n {
			kept = new([4]int)
		}
		return nil
	})
	if err != nil || objects < 1 || objects > 1.1 {
		t.Errorf("Time with one allocation a decision = %v objects, %v; the last at %p", objects, err, kept)
	}
	broken := errors.New("broken")
	if _, _, err := Time(slice, func(int) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Time with a broken worker: %v", err)
	}
}

func TestJudge(t *testing.T) {
	const ms = time.Millisecond
	slice := Slice{Warm: ms, Parts: 3}
	onTime := func(i, decisions int) lap {
		begin := ms * time.Duration(i+1)
		return lap{decisions, begin, begin + ms}
	}
	for _, tt := range []struct {
		name    string
		workers [][]lap
		nanos   float64
	}{
		{"one worker", [][]lap{{{}, onTime(0, 1e6), onTime(1, 2e6), onTime(2, 4e6)}}, 0.5},
		{"two workers", [][]lap{
			{{}, onTime(0, 1e6), onTime(1, 1e6), onTime(2, 1e6)},
			{{}, onTime(0, 3e6), onTime(1, 3e6), onTime(2, 3e6)},
		}, 0.5},
		{"a part that ends late, and the one after it", [][]lap{{{}, onTime(0, 1e6), {1e6, 2 * ms, 4 * ms}, {}}}, 1},
		{"one worker of two is late", [][]lap{
			{{}, onTime(0, 1e6), onTime(1, 1e6), onTime(2, 1e6)},
			{{}, onTime(0, 1e6), {2e6, 2 * ms, 4 * ms}, {0, 4 * ms, 4 * ms}},
		}, 1},
		{"all late", [][]lap{{{}, {1e6, ms, 4 * ms}, {0, 4 * ms, 4 * ms}, {0, 4 * ms, 4 * ms}}}, math.NaN()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nanos := slice.judge(tt.workers)
			if nanos != tt.nanos && !(math.IsNaN(nanos) && math.IsNaN(tt.nanos)) {
				t.Errorf("judge = %v, want %v", nanos, tt.nanos)
			}
		})
	}
}
