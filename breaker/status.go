package breaker

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/protolimit/ratelimit"
)

// counts are what Status tells besides the breakers.
type counts struct {
	local   atomic.Uint64
	denied  atomic.Uint64
	settled atomic.Uint64
	bugs    atomic.Uint64
	bug     atomic.Pointer[error] // the last
}

// met counts a failure that waiting does not cure: no breaker opens for it, and a
// fallback would hide it.
func (c *counts) met(err error) {
	if errors.Is(err, ratelimit.ErrBackendBug) {
		c.bugs.Add(1)
		c.bug.Store(&err)
	}
}

// A Status is how a Backend is, for health endpoints and metrics. Counts are since
// New.
type Status struct {
	Shards    []ShardStatus // by name
	Instances int           // that share the limits
	Local     uint64        // calls that the fallback decided
	Denied    uint64        // calls that failed since a rule says Deny
	Ledger    int64         // buckets whose units are still to be charged
	Settled   uint64        // units charged after an outage
	Dropped   uint64        // units that the ledger lost
	Bugs      uint64        // calls that the primary failed with [ratelimit.ErrBackendBug]
	Bug       error         // the last such error; nil if there was none
}

// A ShardStatus is how the breaker of one shard is.
type ShardStatus struct {
	Shard    string // "" where the primary has one place
	State    State
	Since    time.Time     // of the state
	Trips    int           // how often it opened
	Degraded time.Duration // how long it was not closed, in all
	Cause    error         // the last failure; nil if there was none
}

// Status returns how the backend is now.
func (b *Backend) Status() Status {
	s := Status{
		Instances: b.Instances(),
		Local:     b.counts.local.Load(), Denied: b.counts.denied.Load(),
		Ledger: b.ledger.size.Load(), Settled: b.counts.settled.Load(), Dropped: b.ledger.dropped.Load(),
	}
	if bug := b.counts.bug.Load(); bug != nil {
		s.Bugs, s.Bug = b.counts.bugs.Load(), *bug
	}
	for _, g := range b.guards.all() {
		s.Shards = append(s.Shards, g.status())
	}
	slices.SortFunc(s.Shards, func(x, y ShardStatus) int { return cmp.Compare(x.Shard, y.Shard) })
	return s
}

func (g *guard) status() ShardStatus {
	state := g.breaker.State()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := ShardStatus{Shard: g.shard, State: state, Since: g.since, Trips: g.trips, Degraded: g.lost, Cause: g.cause}
	if !g.away.IsZero() {
		s.Degraded += time.Since(g.away)
	}
	return s
}

// String returns a line for each shard, such as
//
//	redis: open since 12:00:05, 1 trip, degraded 3.2s, dial tcp: connection refused
func (s Status) String() string {
	var b strings.Builder
	for _, shard := range s.Shards {
		fmt.Fprintf(&b, "%s: %v since %s, %d %s, degraded %v", cmp.Or(shard.Shard, "primary"), shard.State,
			shard.Since.Format(time.TimeOnly), shard.Trips, plural(shard.Trips, "trip"), shard.Degraded.Round(time.Millisecond))
		if shard.Cause != nil && shard.State != gobreaker.StateClosed {
			fmt.Fprintf(&b, ", %s", firstLine(shard.Cause))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d instances, %d local decisions, %d denied, %d buckets to settle, %d units settled, %d dropped",
		s.Instances, s.Local, s.Denied, s.Ledger, s.Settled, s.Dropped)
	if s.Bug != nil {
		fmt.Fprintf(&b, "\n%d calls met a bug or a wrong set-up, the last: %s", s.Bugs, firstLine(s.Bug))
	}
	return b.String()
}

// plural returns a word for some of what it names.
func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// firstLine returns an error's text without the stack of a panic.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// portion returns used × part ÷ whole, rounded up; used is at most whole.
func portion(used, part, whole int64) int64 {
	if used <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(min(used, whole)), uint64(part))
	quotient, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}
