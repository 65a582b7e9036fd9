package backendtest

import (
	"math/big"
	"slices"

	"github.com/protolimit/ratelimit"
)

// A logState is the state of SLIDING_LOG: its grants, the oldest first.
type logState []logEntry

type logEntry struct {
	time, cost int64
	number     uint64
}

func (s logState) seen(now int64) state {
	seen := slices.Clone(s)
	for i := range seen {
		seen[i].time = min(seen[i].time, now)
	}
	return seen
}

// at returns the entries that are not gone at now under l.
func (s logState) at(l *ratelimit.Limit, now int64) logState {
	var kept logState
	for _, e := range s {
		if now-e.time < length(l) {
			kept = append(kept, e)
		}
	}
	return kept
}

func (s logState) total() int64 {
	total := int64(0)
	for _, e := range s {
		total += e.cost
	}
	return total
}

// used is the total of the entries at now. The search for waits asks often, so
// they are not collected.
func (s logState) used(l *ratelimit.Limit, now int64) *big.Int {
	total := int64(0)
	for _, e := range s {
		if now-e.time < length(l) {
			total += e.cost
		}
	}
	return big.NewInt(total)
}

func (s logState) charge(l *ratelimit.Limit, now, units int64, entry uint64) state {
	kept := s.at(l, now)
	if cost := min(units, maxMicros-kept.total()); cost > 0 {
		kept = append(kept, logEntry{time: now, cost: cost, number: entry})
	}
	return kept
}

func (s logState) giveBack(l *ratelimit.Limit, now int64, d *ratelimit.Delta) (state, bool) {
	kept := s.at(l, now)
	i := slices.IndexFunc(kept, func(e logEntry) bool { return e.number == d.Receipt.Entry })
	if i < 0 {
		return s, false
	}
	given := min(wanted(d), kept[i].cost)
	kept[i].cost -= given
	if kept[i].cost == 0 {
		kept = slices.Delete(kept, i, i+1)
	}
	return kept, given > 0
}
