package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Limiter decides the calls of the methods of a table. It is safe for
// concurrent use, and has nothing to close: the backend belongs to whoever made
// it.
type Limiter struct {
	methods    map[string]*plan // nil for a method that is never limited
	defaults   *plan            // for other methods; nil if there are no default rules
	backend    Backend
	observer   Observer
	clientIP   func(context.Context) (netip.Addr, bool)
	proxies    []netip.Prefix
	ipv6Prefix int
	logger     *slog.Logger
	warned     atomic.Uint64 // bit s: a call lacked a part of source s
	decisions  sync.Pool     // of *Decision
}

// exemptServices are left out of the default rules: limiting them has an
// orchestrator restart servers that are merely busy.
var exemptServices = []string{
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

// New returns a limiter for the methods of table, deciding through backend.
//
// It returns a [*RuleError] for the first fault of the table or of the default
// rules, and for a rule whose key needs a function that no option gives; other
// errors name the option that is wrong.
func New(table Table, backend Backend, opts ...Option) (*Limiter, error) {
	c := config{ipv6Prefix: 64, logger: slog.Default()}
	for _, o := range opts {
		if err := o.apply(&c); err != nil {
			return nil, err
		}
	}
	if backend == nil {
		return nil, errors.New("ratelimit: New: backend is nil, want one such as memory.New's")
	}
	if err := table.Check(); err != nil {
		return nil, err
	}
	l := &Limiter{
		methods: make(map[string]*plan, len(table)), backend: backend, observer: c.observer, logger: c.logger,
		clientIP: c.clientIP, proxies: c.proxies, ipv6Prefix: c.ipv6Prefix,
	}
	l.decisions.New = func() any { return &Decision{limiter: l} }
	if err := l.plan(table, &c); err != nil {
		return nil, err
	}
	l.warnWithoutFallback()
	return l, nil
}

// plan prepares the methods of the table and the default rules.
func (l *Limiter) plan(table Table, c *config) error {
	for i := range table {
		m := &table[i]
		if len(m.Rules) == 0 {
			if m.Exempt {
				l.methods[m.Name] = nil
			}
			continue
		}
		p, err := newPlan(m, c, func(r *Rule) string { return BucketName(m.Name, r) })
		if err != nil {
			return err
		}
		l.methods[m.Name] = p
	}
	if len(c.defaults) == 0 {
		return nil
	}
	// Checked as one more method of the table, since they may share its buckets.
	m := Method{Name: "/default/rules", Rules: c.defaults}
	_, err := Merge(table, Table{m})
	if err == nil {
		l.defaults, err = newPlan(&m, c, func(r *Rule) string {
			if r.Bucket != "" {
				return r.Bucket
			}
			return "*#" + r.Name
		})
	}
	if rule := (*RuleError)(nil); errors.As(err, &rule) {
		rule.Method = "default rules"
	}
	return err
}

// warnWithoutFallback tells the operator that Local rules have nothing to fall
// back on.
func (l *Limiter) warnWithoutFallback() {
	if f, ok := l.backend.(FallbackReporter); ok && f.HasFallback() {
		return
	}
	for _, p := range append(slices.Collect(maps.Values(l.methods)), l.defaults) {
		if p != nil && p.fallsBack() {
			l.logger.Warn("ratelimit: rules say LOCAL but the backend has no fallback: their calls are served unlimited while it is away",
				"backend", fmt.Sprintf("%T", l.backend))
			return
		}
	}
}

// Decide charges a call to the rules of its method, all of them or none, and
// returns what becomes of it. The decision is never nil; its Err tells why
// nothing was decided. The caller ends it with [Decision.Done].
//
// Decide takes as long as the backend does, and does not sleep.
func (l *Limiter) Decide(ctx context.Context, call *Call) *Decision {
	p := l.planOf(call.Method)
	if p == nil {
		return unlimited
	}
	d := l.decisions.Get().(*Decision)
	d.Method, d.plan, d.Rules, d.Err = call.Method, p, p.rules, nil
	if err := d.charge(ctx, call); err != nil {
		d.giveUp(OutcomeFailed, err)
	} else if err := l.backend.Take(ctx, d.charges, d.Verdicts); err != nil {
		d.giveUp(classify(ctx, err, p))
	} else {
		d.judge()
	}
	if d.key.missing != 0 {
		l.warnMissing(d)
	}
	if l.observer != nil {
		l.observer.ObserveDecision(ctx, d)
	}
	return d
}

// ReadsRequest tells whether the rules of a method read the request message, for
// keys or a cost. Adapters that could decide before there is one ask this.
func (l *Limiter) ReadsRequest(method string) bool {
	p := l.planOf(method)
	return p != nil && p.readsRequest()
}

// planOf returns the plan of a method, or nil if it is not limited.
func (l *Limiter) planOf(method string) *plan {
	if p, found := l.methods[method]; found {
		return p
	}
	return l.defaultPlan(method)
}

// defaultPlan returns the plan of a method that is not in the table.
func (l *Limiter) defaultPlan(method string) *plan {
	if l.defaults == nil {
		return nil
	}
	for _, service := range exemptServices {
		if strings.HasPrefix(method, service) {
			return nil
		}
	}
	return l.defaults
}

// charge reads the call's cost and the parts of its keys, each once, and makes
// the charges. It errors if a function panics.
func (d *Decision) charge(ctx context.Context, call *Call) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s: %v\n%s", ErrKeyFunc, call.Method, r, debug.Stack())
		}
	}()
	p := d.plan
	d.key.reset()
	d.charges = d.charges[:0]
	cost := p.cost.of(call.Request)
	for i := range p.parts {
		d.key.add(ctx, d.limiter, &p.parts[i], call)
	}
	for _, parts := range p.joins {
		d.key.join(parts)
	}
	if n := len(p.limits); cap(d.charges) < n {
		d.charges, d.Verdicts = make([]Charge, n), make([]Verdict, n)
	}
	d.charges, d.Verdicts = d.charges[:len(p.limits)], d.Verdicts[:len(p.limits)]
	for i := range d.charges {
		c := &d.charges[i]
		c.Limit, c.Key, c.Cost = p.limits[i], nil, cost
		if at := p.keys[i].at; at >= 0 {
			c.Key = d.key.part(at)
		}
	}
	return nil
}

// classify tells what becomes of a call for which the backend has an error in
// place of verdicts, and the error with its class.
func classify(ctx context.Context, err error, p *plan) (Outcome, error) {
	if !errors.Is(err, ErrUnavailable) {
		if ctx.Err() != nil {
			return OutcomeCanceled, err
		}
		err = fmt.Errorf("%w: error of the backend without a class: %w", ErrBackendBug, err)
	}
	if p.deny {
		return OutcomeUnavailable, err
	}
	return OutcomeUnlimited, err
}

// warnMissing warns once for each source of key parts that calls may lack:
// callers without the part share one bucket, which is rarely what was meant.
func (l *Limiter) warnMissing(d *Decision) {
	for i := range d.plan.parts {
		part := &d.plan.parts[i]
		if d.key.missing&(1<<i) == 0 {
			continue
		}
		if bit := uint64(1) << part.Source; l.warned.Or(bit)&bit == 0 {
			l.logger.Warn("ratelimit: a call lacks a part of its key: all such calls share one bucket",
				"method", d.Method, "part", part.String())
		}
	}
}

// maxKept is the largest key buffer, in bytes, that is kept for other calls.
const maxKept = 4096

// release takes back a decision that nobody uses any more.
func (l *Limiter) release(d *Decision) {
	d.plan = nil
	if cap(d.key.bytes) > maxKept { // one large field or header
		d.key.bytes = nil
	}
	l.decisions.Put(d)
}
