package backendtest

import (
	"sync/atomic"
	"time"
)

// epoch is when each test starts: the first instant of 2026, a Thursday, so
// that windows of all usual lengths start then.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// zone is where the suite's clock hangs. Windows must not care.
var zone = time.FixedZone("UTC+05:45", 5*60*60+45*60)

// A clock stands still until it is set.
type clock struct {
	nanos atomic.Int64
	held  atomic.Pointer[func()]
}

func newClock() *clock {
	c := &clock{}
	c.set(0)
	return c
}

func (c *clock) now() time.Time {
	now := time.Unix(0, c.nanos.Load()).In(zone)
	if hold := c.held.Swap(nil); hold != nil {
		(*hold)()
	}
	return now
}

// holdNext has the next reader call hold between its look and its return.
func (c *clock) holdNext(hold func()) { c.held.Store(&hold) }

// set makes it at after the epoch.
func (c *clock) set(at time.Duration) { c.nanos.Store(epoch.UnixNano() + int64(at)) }

// at returns the time since the epoch.
func (c *clock) at() time.Duration { return time.Duration(c.nanos.Load() - epoch.UnixNano()) }

// advance moves it forward, or back if d is below zero.
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }
