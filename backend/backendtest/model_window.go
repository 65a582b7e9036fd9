package backendtest

import (
	"math/big"

	"github.com/protolimit/ratelimit"
)

// A windowState is the state of FIXED_WINDOW.
type windowState struct {
	count  int64
	time   int64
	length int64
}

func (s windowState) seen(now int64) state {
	s.time = min(s.time, now)
	return s
}

// at returns the count in the window of l that holds now.
func (s windowState) at(l *ratelimit.Limit, now int64) int64 {
	if s.time/length(l) != now/length(l) {
		return 0
	}
	return s.count
}

func (s windowState) used(l *ratelimit.Limit, now int64) *big.Int {
	return big.NewInt(s.at(l, now))
}

func (s windowState) charge(l *ratelimit.Limit, now, units int64, _ uint64) state {
	return windowState{count: counted(s.at(l, now), units), time: now, length: length(l)}
}

func (s windowState) giveBack(l *ratelimit.Limit, now int64, d *ratelimit.Delta) (state, bool) {
	count := s.at(l, now)
	if s.length != length(l) || windowsAgo(l, now, d.Receipt) != 0 {
		return s, false
	}
	given := min(wanted(d), count)
	return windowState{count: count - given, time: now, length: s.length}, given > 0
}

// A slidingState is the state of SLIDING_WINDOW.
type slidingState struct {
	current, previous int64
	time              int64
	length            int64
}

func (s slidingState) seen(now int64) state {
	s.time = min(s.time, now)
	return s
}

// at returns the counts of the window of l that holds now and of the one before.
func (s slidingState) at(l *ratelimit.Limit, now int64) (current, previous int64) {
	current, previous = s.current, s.previous
	if s.length != length(l) && s.length != 0 {
		current, previous = counted(current, s.share(s.time, s.length)), 0
	}
	switch now/length(l) - s.time/length(l) {
	case 0:
		return current, previous
	case 1:
		return 0, current
	}
	return 0, 0
}

// share returns what previous still counts at a time, in windows of length.
func (s slidingState) share(time, length int64) int64 {
	return scaled(s.previous, length-time%length, length, true)
}

func (s slidingState) used(l *ratelimit.Limit, now int64) *big.Int {
	current, previous := s.at(l, now)
	used := big.NewInt(current)
	return used.Add(used, big.NewInt(slidingState{previous: previous}.share(now, length(l))))
}

func (s slidingState) charge(l *ratelimit.Limit, now, units int64, _ uint64) state {
	current, previous := s.at(l, now)
	return slidingState{current: counted(current, units), previous: previous, time: now, length: length(l)}
}

func (s slidingState) giveBack(l *ratelimit.Limit, now int64, d *ratelimit.Delta) (state, bool) {
	if s.length != length(l) {
		return s, false
	}
	current, previous := s.at(l, now)
	given := int64(0)
	switch windowsAgo(l, now, d.Receipt) {
	case 0:
		given = min(wanted(d), current)
		current -= given
	case 1:
		given = min(wanted(d), previous)
		previous -= given
	}
	return slidingState{current: current, previous: previous, time: now, length: s.length}, given > 0
}

// windowsAgo returns how many windows of l before the one that holds now the
// charge was made, or -1 if that was under another length.
func windowsAgo(l *ratelimit.Limit, now int64, r ratelimit.Receipt) int64 {
	if r.Entry != uint64(length(l)) {
		return -1
	}
	return now/length(l) - min(r.At, now)/length(l)
}

// wanted returns what a delta below zero gives back at most.
func wanted(d *ratelimit.Delta) int64 {
	if -d.Units < 0 { // the lowest int64
		return d.Cost
	}
	return min(-d.Units, d.Cost)
}

// counted returns a + b, at most what a count can hold.
func counted(a, b int64) int64 { return min(saturated(a, b), maxMicros) }
