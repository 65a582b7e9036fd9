package backendtest

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/protolimit/ratelimit"
)

// A fault is something wrong, and the kinds of checks that find it.
type fault struct {
	name  string
	found []string
	take  func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error
	// change is what is wrong in Adjust.
	change func(b *broken, deltas []ratelimit.Delta) error
	// clock is what is wrong with the clock.
	clock func(now time.Time) time.Time
	// races is set where the race detector is what finds it.
	races bool
	// wrap is what is wrong where take, change and clock cannot say it.
	wrap func(b *broken) ratelimit.Backend
}

// made returns a backend with the fault.
func (f fault) made(clock *clock) ratelimit.Backend {
	now := clock.now
	if f.clock != nil {
		now = func() time.Time { return f.clock(clock.now()) }
	}
	b := &broken{model: newModel(now), clock: clock, take: f.take, change: f.change}
	if f.wrap != nil {
		return f.wrap(b)
	}
	return b
}

// answered changes verdicts that the model gave.
func answered(change func(c *ratelimit.Charge, v *ratelimit.Verdict)) func(*broken, []ratelimit.Charge, []ratelimit.Verdict) error {
	return func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		err := b.ask(charges, verdicts)
		for i := range verdicts {
			change(&charges[i], &verdicts[i])
		}
		return err
	}
}

// asked changes charges before the model sees them.
func asked(change func(c *ratelimit.Charge)) func(*broken, []ratelimit.Charge, []ratelimit.Verdict) error {
	return func(b *broken, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		changed := append([]ratelimit.Charge(nil), charges...)
		for i := range changed {
			change(&changed[i])
		}
		return b.ask(changed, verdicts)
	}
}

// told changes deltas before the model sees them.
func told(change func(b *broken, d *ratelimit.Delta)) func(*broken, []ratelimit.Delta) error {
	return func(b *broken, deltas []ratelimit.Delta) error {
		changed := append([]ratelimit.Delta(nil), deltas...)
		for i := range changed {
			change(b, &changed[i])
		}
		return b.model.Adjust(context.Background(), changed)
	}
}

// like returns l with another bucket name, count or burst.
func like(l *ratelimit.Limit, bucket string, more int64) *ratelimit.Limit {
	rule := ratelimit.Rule{Algorithm: l.Algorithm(), Rate: l.Rate()}
	if l.Algorithm().HasBurst() && l.Most() > 0 {
		rule.Burst = min(l.Most()+more, ratelimit.MaxCount)
	} else {
		rule.Rate.Count += more
	}
	changed, err := ratelimit.NewLimit(bucket, rule)
	if err != nil {
		return l
	}
	return changed
}

// faults are in the order of the checks that find them.
var faults = []fault{
	{
		name: "grants one too many", found: []string{"steps", "demand", "together", "peek", "concurrency", "traces"},
		take: asked(func(c *ratelimit.Charge) { c.Limit = like(c.Limit, c.Limit.Bucket(), 1) }),
	},
	{
		name: "tells a wait that is too short", found: []string{"steps", "adjust", "change", "ranges", "traces"},
		take: answered(func(_ *ratelimit.Charge, v *ratelimit.Verdict) {
			if v.Reason == ratelimit.ReasonExceeded {
				v.RetryAfter -= µs
			}
		}),
	},
	{
		name: "tells a wait that is too long", found: []string{"steps", "change", "ranges", "traces"},
		take: answered(func(_ *ratelimit.Charge, v *ratelimit.Verdict) {
			if v.Reason == ratelimit.ReasonExceeded {
				v.RetryAfter += µs
			}
		}),
	},
	{
		name: "tells no reset", found: []string{"steps", "peek", "traces"},
		take: answered(func(_ *ratelimit.Charge, v *ratelimit.Verdict) { v.ResetAfter = 0 }),
	},
	{
		name: "tells a wait where none helps", found: []string{"steps", "together", "peek"},
		take: answered(func(_ *ratelimit.Charge, v *ratelimit.Verdict) {
			if v.Reason == ratelimit.ReasonNever {
				v.RetryAfter = sec
			}
		}),
	},
	{
		name: "refuses for ever without saying so", found: []string{"steps", "together", "peek"},
		take: answered(func(_ *ratelimit.Charge, v *ratelimit.Verdict) {
			if v.Reason == ratelimit.ReasonNever {
				v.Reason = ratelimit.ReasonExceeded
			}
		}),
	},
	{
		name: "has a local midnight", found: []string{"steps"},
		clock: func(now time.Time) time.Time {
			_, offset := now.Zone()
			return now.Add(time.Duration(offset) * sec)
		},
	},
	{
		name: "has weeks that start on Monday", found: []string{"steps"},
		clock: func(now time.Time) time.Time { return now.Add(3 * day) },
	},
	{
		name: "counts in milliseconds", found: []string{"steps", "ranges", "traces"},
		clock: func(now time.Time) time.Time { return now.Truncate(ms) },
	},
	{
		name: "rounds fractions of a microsecond up", found: []string{"ranges"},
		clock: func(now time.Time) time.Time { return now.Add(µs - time.Nanosecond) },
	},
	{name: "counts refused calls", found: []string{"steps", "demand", "together", "traces"}, take: countRefused},
	{name: "decides charges one by one", found: []string{"together", "traces"}, take: oneByOne},
	{name: "adds nothing up", found: []string{"together", "traces"}, take: addNothing},
	{name: "adds up past the largest number", found: []string{"together"}, take: wrapAround},
	{
		name: "takes 0 for no limit", found: []string{"peek"},
		take: answered(func(c *ratelimit.Charge, v *ratelimit.Verdict) {
			if c.Limit.Most() == 0 {
				*v = ratelimit.Verdict{Allowed: true}
			}
		}),
	},
	{
		name: "charges for a peek", found: []string{"peek", "together", "traces"},
		take: asked(func(c *ratelimit.Charge) { c.Cost = max(c.Cost, 1) }),
	},
	{
		name: "refuses a peek at a full bucket", found: []string{"peek", "traces"},
		take: answered(func(c *ratelimit.Charge, v *ratelimit.Verdict) {
			if c.Cost == 0 && v.Remaining == 0 && c.Limit.Most() > 0 {
				v.Allowed, v.Reason, v.RetryAfter = false, ratelimit.ReasonExceeded, v.ResetAfter
			}
		}),
	},
	{
		name: "gives back what does not count any more", found: []string{"late", "traces"},
		change: told(func(b *broken, d *ratelimit.Delta) { d.Receipt.At = b.now().UnixMicro() }),
	},
	{
		name: "gives back more than the cost", found: []string{"adjust", "traces"},
		change: told(func(_ *broken, d *ratelimit.Delta) { d.Cost = math.MaxInt32 }),
	},
	{
		name: "gives back without a receipt", found: []string{"adjust"},
		change: told(func(b *broken, d *ratelimit.Delta) {
			d.Receipt.At, d.Receipt.Entry = b.now().UnixMicro(), uint64(length(d.Limit))
		}),
	},
	{
		name: "gives nothing back", found: []string{"adjust", "late", "concurrency", "traces"},
		change: told(func(_ *broken, d *ratelimit.Delta) { d.Units = max(d.Units, 0) }),
	},
	{
		name: "charges nothing more", found: []string{"adjust", "traces"},
		change: told(func(_ *broken, d *ratelimit.Delta) { d.Units = min(d.Units, 0) }),
	},
	{
		name: "changes only the first", found: []string{"adjust"},
		change: func(b *broken, deltas []ratelimit.Delta) error {
			return b.model.Adjust(context.Background(), deltas[:min(1, len(deltas))])
		},
	},
	{name: "gives the latest entry back", found: []string{"late"}, change: latestEntry},
	{
		name: "starts anew when the count changes", found: []string{"change", "together", "traces"},
		take: renamed(func(l *ratelimit.Limit) string { return strconv.FormatInt(l.Most(), 10) }),
	},
	{
		name: "starts anew when the window changes", found: []string{"change", "traces"},
		take: renamed(func(l *ratelimit.Limit) string { return l.Window().String() }),
	},
	{name: "keeps the first limit", found: []string{"change", "traces"}, wrap: keepFirst},
	{name: "stores what a refusal converted", found: []string{"change", "traces"}, take: storeRefused},
	{name: "keeps nothing when the clock steps back", found: []string{"steps", "adjust", "ranges", "traces"}, wrap: resetOnStep},
	{
		name: "drains while the clock steps back", found: []string{"ranges"},
		clock: func(now time.Time) time.Time {
			if d := now.Sub(epoch); d < 0 {
				return epoch.Add(-d)
			} else if d > 400*day-sec && d < 400*day {
				return now.Add(2 * sec)
			}
			return now
		},
	},
	{name: "overflows after a year", found: []string{"ranges"}, wrap: overflow},
	{name: "joins bucket and key", found: []string{"identity"}, take: joined},
	{
		name: "ends keys at a NUL", found: []string{"identity"},
		take: asked(func(c *ratelimit.Charge) {
			key, _, _ := strings.Cut(string(c.Key), "\x00")
			c.Key = []byte(key)
		}),
	},
	{
		name: "cuts long keys", found: []string{"identity"},
		take: asked(func(c *ratelimit.Charge) { c.Key = c.Key[:min(len(c.Key), 64<<10)] }),
	},
	{
		name: "repairs UTF-8", found: []string{"identity"},
		take: asked(func(c *ratelimit.Charge) { c.Key = []byte(strings.ToValidUTF8(string(c.Key), "\ufffd")) }),
	},
	{name: "ignores the algorithm", found: []string{"change", "together"}, take: sameForAll},
	{
		name: "takes negative costs", found: []string{"input"},
		take: asked(func(c *ratelimit.Charge) { c.Cost = max(c.Cost, 0) }),
	},
	{
		name: "panics on slices of different lengths", found: []string{"input"},
		wrap: func(b *broken) ratelimit.Backend { return careless{b} },
	},
	{name: "works when closed", found: []string{"input"}, wrap: func(b *broken) ratelimit.Backend { return unclosed{b} }},
	{name: "checks first and charges later", found: []string{"concurrency"}, take: checkThenCharge},
	{name: "reads the clock before it waits", found: []string{"concurrency"}, wrap: clockFirst},
	{name: "reads keys after it returned", found: []string{"leaving"}, races: true, wrap: func(b *broken) ratelimit.Backend { return &lazy{broken: b} }},
	{name: "loses a hundredth of each unit", found: []string{"drift"}, take: lossy},
	{
		name: "gives a hundredth of each unit", found: []string{"drift", "demand"},
		clock: func(now time.Time) time.Time { return epoch.Add(now.Sub(epoch) / 100 * 101) },
	},
}
