package backendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/protolimit/ratelimit"
)

// traceLength is how many calls a random trace has, of which some are left out.
const traceLength = 60

// traceShares splits the traces over subtests, so that a backend keeps nothing
// for longer than one of them takes.
const traceShares = 5

func traceChecks() []check {
	var all []check
	for share := range traceShares {
		all = append(all, check{fmt.Sprintf("traces/%d", share), func(e *env) {
			for i := share; i < e.cfg.traces; i += traceShares {
				e.compareTrace(uint64(i))
			}
		}})
	}
	return all
}

// compareTrace makes a random trace, and fails with the shortest part of it
// that the backend answers otherwise than the model.
func (e *env) compareTrace(i uint64) {
	e.Helper()
	m := newMaker(random(e.cfg.seed, i), e.cfg.split)
	p := e.newPair()
	var made trace
	for number := range traceLength {
		o := m.op(number)
		if !p.clockMay(o.step) {
			o.step = 0
		}
		made = append(made, o)
		verdicts, differs := p.play(o)
		if differs != "" {
			short, why := e.shortened(made, differs)
			e.Fatalf("trace %d of WithSeed(%d) differs from the model:\n%s\n%s", i, e.cfg.seed, short, why)
		}
		m.learn(o, verdicts)
	}
}

// shortened leaves out what it can of a trace that differs: parts of it by
// halves, then single ops, until none can go.
func (e *env) shortened(t trace, why string) (trace, string) {
	for size := len(t) / 2; size > 0; {
		before := len(t)
		for from := 0; from+size <= len(t); {
			shorter := append(slices.Clone(t[:from]), t[from+size:]...)
			if from < len(shorter) {
				for _, gone := range t[from : from+size] {
					shorter[from].step += gone.step
				}
			}
			if differs := e.replayed(shorter); differs != "" {
				t, why = shorter, differs
			} else {
				from += size
			}
		}
		if len(t) == before || size > 1 {
			size /= 2
		}
	}
	return t, why
}

// replayed runs a trace on new buckets, and says where it differs.
func (e *env) replayed(t trace) string {
	p := e.newPair()
	for _, o := range t {
		if _, differs := p.play(o); differs != "" {
			return differs
		}
	}
	return ""
}

// A pair is the backend and a model that are asked the same.
type pair struct {
	*env
	model  *model
	bucket string
	grants map[[2]int]grant
}

// A grant is a charge that both granted, and their receipts.
type grant struct {
	charge     ratelimit.Charge
	ask        ask
	mine, want ratelimit.Receipt
}

func (e *env) newPair() *pair {
	e.clock.set(0)
	p := &pair{env: e, model: newModel(e.clock.now), bucket: e.bucket(), grants: map[[2]int]grant{}}
	p.model.watch = true
	return p
}

// clockMay tells whether the clock stays in its range after a step.
func (p *pair) clockMay(step time.Duration) bool {
	at := p.clock.at() + step
	return at > -50*365*day && at < 150*365*day
}

// limit returns the limit of a bucket of the trace.
func (p *pair) limit(n numbers, bucket int) *ratelimit.Limit {
	l, err := ratelimit.NewLimit(fmt.Sprintf("%s-%d", p.bucket, bucket), n.rule())
	if err != nil {
		p.Fatalf("NewLimit: %v", err)
	}
	return l
}

// play makes the call of o on both, and says how they differ. A call that
// docs/algorithms.md leaves open is left out.
func (p *pair) play(o op) (want []ratelimit.Verdict, differs string) {
	p.clock.advance(o.step)
	if len(o.asks) == 0 {
		return nil, p.change(o)
	}
	charges := make([]ratelimit.Charge, len(o.asks))
	for i, a := range o.asks {
		charges[i] = chargeKey(p.limit(a.numbers, a.bucket), a.key, a.cost)
		if p.model.open(charges[i].Limit, charges[i].Key) {
			return nil, ""
		}
	}
	got := make([]ratelimit.Verdict, len(charges))
	want = make([]ratelimit.Verdict, len(charges))
	if err := p.model.Take(p.ctx, charges, want); err != nil {
		p.Fatalf("the model fails: %v", err)
	}
	if err := p.backend.Take(p.ctx, charges, got); err != nil {
		return nil, fmt.Sprintf("call %d: error %v, want none", o.number, err)
	}
	for i := range got {
		mine, theirs := got[i], want[i]
		if mine.Receipt.At != theirs.Receipt.At {
			return nil, fmt.Sprintf("call %d, charge %d: receipt is of %d, want %d", o.number, i, mine.Receipt.At, theirs.Receipt.At)
		}
		if theirs.Receipt.At != 0 {
			p.grants[[2]int{o.number, i}] = grant{charges[i], o.asks[i], mine.Receipt, theirs.Receipt}
		}
		mine.Receipt, theirs.Receipt = ratelimit.Receipt{}, ratelimit.Receipt{}
		if mine != theirs {
			return nil, fmt.Sprintf("call %d, charge %d:\n got  %s\n want %s", o.number, i, formatVerdict(mine), formatVerdict(theirs))
		}
	}
	return want, ""
}

// change makes the adjustment of o on both, and says how the bucket differs
// after it.
func (p *pair) change(o op) (differs string) {
	g, ok := p.grants[[2]int{o.change.op, o.change.ask}]
	if !ok {
		return ""
	}
	l := p.limit(o.change.numbers, g.ask.bucket)
	if p.model.open(l, g.charge.Key) {
		return ""
	}
	d := ratelimit.Delta{Limit: l, Key: g.charge.Key, Cost: g.charge.Cost, Units: o.change.units, Receipt: g.want}
	if err := p.model.Adjust(p.ctx, []ratelimit.Delta{d}); err != nil {
		p.Fatalf("the model fails: %v", err)
	}
	d.Receipt = g.mine
	if err := p.backend.Adjust(p.ctx, []ratelimit.Delta{d}); err != nil {
		return fmt.Sprintf("call %d: error %v, want none", o.number, err)
	}
	peek := []ratelimit.Charge{{Limit: l, Key: g.charge.Key}}
	got, want := make([]ratelimit.Verdict, 1), make([]ratelimit.Verdict, 1)
	if err := p.model.Take(p.ctx, peek, want); err != nil {
		p.Fatalf("the model fails: %v", err)
	}
	if err := p.backend.Take(p.ctx, peek, got); err != nil {
		return fmt.Sprintf("peek after call %d: error %v, want none", o.number, err)
	}
	if got[0] != want[0] {
		return fmt.Sprintf("peek after call %d:\n got  %s\n want %s", o.number, formatVerdict(got[0]), formatVerdict(want[0]))
	}
	return ""
}
