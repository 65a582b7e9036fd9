package backendtest

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/protolimit/ratelimit"
)

// callers is how many goroutines call at once.
const callers = 8

// concurrencyChecks have many callers at once. The clock stands still, or steps
// between rounds, so that what must be granted is known exactly.
func concurrencyChecks(cfg *config) []check {
	var all []check
	for _, a := range everyAlgorithm {
		all = append(all,
			check{fmt.Sprintf("concurrency/%v grants exactly the burst", a), func(e *env) { e.exactlyBurst(a) }},
			check{fmt.Sprintf("concurrency/%v grants no more than it gives back", a), func(e *env) { e.takeAndGiveBack(a) }})
		if !cfg.unordered {
			all = append(all, check{fmt.Sprintf("concurrency/%v forgets nothing for a caller held up", a), func(e *env) { e.heldUp(a) }})
		}
	}
	for _, a := range levels {
		all = append(all, check{fmt.Sprintf("concurrency/%v grants what has drained, and no more", a), func(e *env) { e.rounds(a) }})
	}
	return append(all,
		check{"concurrency/buckets charged together stay equal", (*env).stayEqual},
		check{"concurrency/opposing orders end, and grant exactly the burst", (*env).opposingOrders})
}

// together has all callers run f, and returns the first error.
func together(f func(i int) error) error {
	errs := make(chan error, callers)
	start := make(chan struct{})
	for i := range callers {
		go func() {
			<-start
			errs <- f(i)
		}()
	}
	close(start)
	var first error
	for range callers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// flood has all callers make so many calls each, and returns how many of the
// calls were granted.
func (e *env) flood(each int, charges func(i int) []ratelimit.Charge) int64 {
	e.Helper()
	var granted atomic.Int64
	err := together(func(i int) error {
		for range each {
			c := charges(i)
			verdicts := make([]ratelimit.Verdict, len(c))
			if err := e.backend.Take(e.ctx, c, verdicts); err != nil {
				return err
			}
			if allAllowed(verdicts) {
				granted.Add(1)
			}
		}
		return nil
	})
	if err != nil {
		e.fail("Take: error %v, want none", err)
	}
	return granted.Load()
}

func allAllowed(verdicts []ratelimit.Verdict) bool {
	for i := range verdicts {
		if !verdicts[i].Allowed {
			return false
		}
	}
	return true
}

func (e *env) exactlyBurst(a ratelimit.Algorithm) {
	for _, key := range []string{"", "caller"} {
		l := e.limit(a, "100/m", 0)
		granted := e.flood(40, func(int) []ratelimit.Charge { return []ratelimit.Charge{chargeKey(l, key, 1)} })
		if granted != 100 {
			e.fail("%d calls of %d granted by %v, want 100", granted, 40*callers, l)
		}
		e.expect("a call more", e.take(chargeKey(l, key, 101))[0], never(0, e.take(chargeKey(l, key, 0))[0].ResetAfter))
	}
}

// takeAndGiveBack has each caller give back what it took: the bucket is never
// past its burst meanwhile, and empty in the end.
func (e *env) takeAndGiveBack(a ratelimit.Algorithm) {
	l := e.limit(a, "20/m", 0)
	var out, granted atomic.Int64
	err := together(func(int) error {
		for range 40 {
			charges, verdicts := []ratelimit.Charge{charge(l, 7)}, make([]ratelimit.Verdict, 1)
			if err := e.backend.Take(e.ctx, charges, verdicts); err != nil {
				return err
			}
			if !verdicts[0].Allowed {
				continue
			}
			granted.Add(1)
			if n := out.Add(7); n > 20 {
				return fmt.Errorf("%d units granted and not given back, want at most 20", n)
			}
			out.Add(-7)
			if err := e.backend.Adjust(e.ctx, []ratelimit.Delta{delta(charges[0], verdicts[0], -7)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.fail("%v", err)
	}
	if granted.Load() == 0 {
		e.fail("no call granted, want some")
	}
	e.expect("peek in the end", e.one(l, 0), passes(20, 0))
}

func (e *env) rounds(a ratelimit.Algorithm) {
	l := e.limit(a, "1000/s", 50)
	for round := range 30 {
		want := int64(10)
		if round == 0 {
			want = 50
		}
		granted := e.flood(10, func(int) []ratelimit.Charge { return []ratelimit.Charge{charge(l, 1)} })
		if granted != want {
			e.fail("round %d: %d calls granted, want %d", round, granted, want)
		}
		e.clock.advance(10 * ms)
	}
}

// stayEqual charges limits of all algorithms together, the smallest of which
// refuses most calls, and others of them alone.
func (e *env) stayEqual() {
	limits := e.oneOfEach("100/m")
	smallest := e.limit(ratelimit.TokenBucket, "60/m", 0)
	charges := peeks(append(limits, smallest))
	for i := range charges {
		charges[i].Cost = 1
	}
	granted := e.flood(20, func(i int) []ratelimit.Charge { return rotated(charges, i) })
	if granted > 60 {
		e.fail("%d calls granted, want at most 60", granted)
	}
	for allAllowed(e.take(charges...)) {
		granted++
	}
	if granted != 60 {
		e.fail("%d calls granted in the end, want 60", granted)
	}
	for _, l := range limits {
		e.leaves(l, 40)
	}
	e.leaves(smallest, 0)
}

// rotated returns a copy that starts at another place, and turns every other
// one around.
func rotated(charges []ratelimit.Charge, by int) []ratelimit.Charge {
	n := len(charges)
	turned := make([]ratelimit.Charge, n)
	for i := range charges {
		at := (i + by) % n
		if by%2 == 1 {
			at = n - 1 - at
		}
		turned[i] = charges[at]
	}
	return turned
}

// opposingOrders charges pairs of keys in both orders at once.
func (e *env) opposingOrders() {
	l := e.limit(ratelimit.TokenBucket, "50/m", 0)
	keys := []string{"", "a", "b", "c"}
	var granted [4]atomic.Int64
	err := together(func(i int) error {
		r := random(e.cfg.seed, uint64(i))
		for range 60 {
			order := r.Perm(len(keys))[:3]
			charges, verdicts := make([]ratelimit.Charge, 0, 3), make([]ratelimit.Verdict, 3)
			for _, k := range order {
				charges = append(charges, chargeKey(l, keys[k], 1))
			}
			if err := e.backend.Take(e.ctx, charges, verdicts); err != nil {
				return err
			}
			for _, k := range order {
				if allAllowed(verdicts) {
					granted[k].Add(1)
				}
			}
		}
		return nil
	})
	if err != nil {
		e.fail("Take: error %v, want none", err)
	}
	for k, key := range keys {
		if got, want := e.take(chargeKey(l, key, 0))[0].Remaining, 50-granted[k].Load(); got != want {
			e.fail("key %q: remaining %d after %d grants, want %d", key, got, granted[k].Load(), want)
		}
	}
}

// heldUp holds a caller up between its look at the clock and its decision, for
// as long as another one, two windows later, can be decided meanwhile. What the
// later one took then still counts.
func (e *env) heldUp(a ratelimit.Algorithm) {
	for range 20 {
		e.clock.set(sec / 2)
		l := e.limit(a, "100/s", 0)
		early, reached, over := make(chan error, 1), make(chan struct{}), &atomic.Bool{}
		e.clock.holdNext(func() {
			close(reached)
			for i := 0; i < 500 && !over.Load(); i++ {
				runtime.Gosched()
			}
		})
		go func() {
			early <- e.backend.Take(e.ctx, []ratelimit.Charge{charge(l, 40)}, make([]ratelimit.Verdict, 1))
		}()
		<-reached
		e.clock.advance(2 * sec)
		err := e.backend.Take(e.ctx, []ratelimit.Charge{charge(l, 40)}, make([]ratelimit.Verdict, 1))
		over.Store(true)
		if err2 := <-early; err != nil || err2 != nil {
			e.fail("Take: errors %v and %v, want none", err, err2)
		}
		if v := e.one(l, 0); v.Remaining > 60 {
			e.fail("got %s, want remaining 60 at most: 40 were taken at this instant", formatVerdict(v))
		}
	}
}
