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
	warned     atomic.Uint32 // bit o: a call ended with outcome o; 31: by a bug; 30: a refund failed
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
		if o == nil {
			return nil, errors.New("ratelimit: New: an option is nil, want one of the With functions")
		}
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
	for _, m := range table {
		m.Rules = cloneRules(m.Rules) // what the caller does to the table later is its own
		if len(m.Rules) == 0 {
			if m.Exempt {
				l.methods[m.Name] = nil
			}
			continue
		}
		p, err := newPlan(&m, c, func(r *Rule) string { return BucketName(m.Name, r) })
		if err != nil {
			return err
		}
		l.methods[m.Name] = p
	}
	if len(c.defaults) == 0 {
		return nil
	}
	// Checked as one more method of the table, since they may share its buckets.
	m := Method{Name: "/default/rules", Rules: cloneRules(c.defaults)}
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
	if d.key.missing != 0 || d.Err != nil {
		l.warn(ctx, d)
	}
	if l.observer.Decision != nil {
		l.observer.Decision(ctx, d)
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

// warn tells the operator, once for each cause, of what a decision lacked: a key
// part, by which callers without it share one bucket, which is rarely what was
// meant; or a verdict. Observers see every case.
func (l *Limiter) warn(ctx context.Context, d *Decision) {
	if unseen := d.key.missing &^ d.plan.missed.Load(); unseen != 0 {
		unseen &^= d.plan.missed.Or(unseen)
		for i := range d.plan.parts {
			if unseen&(1<<i) != 0 {
				l.logger.WarnContext(ctx, "ratelimit: a call lacks a part of its key: all such calls share one bucket",
					"method", d.Method, "part", d.plan.parts[i].String())
			}
		}
	}
	if d.Err == nil || d.Outcome == OutcomeCanceled {
		return
	}
	cause := uint32(1) << d.Outcome
	if errors.Is(d.Err, ErrBackendBug) {
		cause = 1 << 31
	}
	if l.first(cause) {
		l.logger.ErrorContext(ctx, "ratelimit: a call was not decided; the next ones for this cause are not logged",
			"method", d.Method, "outcome", d.Outcome.String(), "error", d.Err)
	}
}

// first tells whether this is the first time that a cause is to be logged.
func (l *Limiter) first(cause uint32) bool { return l.warned.Or(cause)&cause == 0 }

// refunded tells whoever should know that a charge was given back, or was not.
func (l *Limiter) refunded(ctx context.Context, d *Decision, err error) {
	if err != nil && l.first(1<<30) {
		l.logger.ErrorContext(ctx, "ratelimit: a charge was not given back; the next ones are not logged",
			"method", d.Method, "error", err)
	}
	if l.observer.Refund != nil {
		l.observer.Refund(ctx, d, err)
	}
}

// maxKept is the largest key buffer, in bytes, that is kept for other calls.
const maxKept = 4096

// release takes back a decision that nobody uses any more.
func (l *Limiter) release(d *Decision) {
	d.plan = nil
	if cap(d.key.bytes) > maxKept { // one large field or header
		d.key.bytes = nil
		clear(d.charges)
		clear(d.deltas)
	}
	l.decisions.Put(d)
}
