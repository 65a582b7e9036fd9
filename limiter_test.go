package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// seen is what an observer keeps of a decision.
type seen struct {
	method  string
	outcome Outcome
	missing bool
	err     error
}

type recorder struct{ decisions []seen }

// observe returns an observer that records.
func (r *recorder) observe() Option {
	return WithObserver(Observer{Decision: r.saw})
}

func (r *recorder) saw(_ context.Context, d *Decision) {
	r.decisions = append(r.decisions, seen{d.Method, d.Outcome, d.Missing(0), d.Err})
}

func newLimiter(t *testing.T, backend Backend, tab Table, opts ...Option) *Limiter {
	t.Helper()
	l, err := New(tab, backend, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDecideJudges(t *testing.T) {
	pass := func(left int64) Verdict { return Verdict{Allowed: true, Remaining: left} }
	refuse := func(wait time.Duration) Verdict { return Verdict{Reason: ReasonExceeded, RetryAfter: wait} }
	for _, c := range []struct {
		name     string
		verdicts []Verdict
		outcome  Outcome
		binding  int
		retry    time.Duration
	}{
		{"one passes", []Verdict{pass(3)}, OutcomeAllowed, 0, 0},
		{"the least left binds", []Verdict{pass(3), pass(1), pass(2)}, OutcomeAllowed, 1, 0},
		{"the first of equals binds", []Verdict{pass(3), pass(1), pass(1)}, OutcomeAllowed, 1, 0},
		{"one refuses", []Verdict{pass(0), refuse(5), pass(0)}, OutcomeRefused, 1, 5},
		{"the longest wait binds", []Verdict{refuse(5), pass(0), refuse(9), refuse(7)}, OutcomeRefused, 2, 9},
		{"never is the longest wait", []Verdict{refuse(MaxWait), {Reason: ReasonNever, RetryAfter: Never}}, OutcomeRefused, 1, Never},
	} {
		var rules []Rule
		for i := range c.verdicts {
			rules = append(rules, Rule{Name: fmt.Sprintf("r%d", i), Rate: Rate{10, time.Second}})
		}
		l := newLimiter(t, &fakeBackend{take: func(_ context.Context, _ []Charge, verdicts []Verdict) error {
			copy(verdicts, c.verdicts)
			return nil
		}}, table(method("/a.S/M", rules...)))
		d := l.Decide(context.Background(), &Call{Method: "/a.S/M"})
		if d.Outcome != c.outcome || d.Binding != c.binding || d.RetryAfter() != c.retry || d.Allowed() != (c.outcome == OutcomeAllowed) {
			t.Errorf("%s: outcome %v, binding %d, retry after %v; want %v, %d, %v", c.name, d.Outcome, d.Binding, d.RetryAfter(), c.outcome, c.binding, c.retry)
		}
	}
}

// TestOneTakeForAllRules is promise 1 as far as it is the limiter's: the rules
// of a call go to the backend together, with one cost.
func TestOneTakeForAllRules(t *testing.T) {
	var calls [][]string
	l := newLimiter(t, &fakeBackend{take: func(_ context.Context, charges []Charge, _ []Verdict) error {
		var buckets []string
		for _, c := range charges {
			buckets = append(buckets, fmt.Sprintf("%s*%d", c.Limit.Bucket(), c.Cost))
		}
		calls = append(calls, buckets)
		return nil
	}}, table(Method{Name: "/a.S/M", Cost: Cost{Units: 3}, Rules: []Rule{
		{Name: "own", Rate: Rate{10, time.Second}},
		{Name: "all", Rate: Rate{10, time.Second}, Scope: ScopeService},
		{Name: "shared", Rate: Rate{10, time.Second}, Bucket: "tenant"},
	}}))
	d := l.Decide(context.Background(), &Call{Method: "/a.S/M"})
	if want := "[[/a.S/M#own*3 /a.S#all*3 tenant*3]]"; fmt.Sprint(calls) != want || d.Cost() != 3 {
		t.Errorf("Take was called with %v, decision costs %d; want %s and 3", calls, d.Cost(), want)
	}
}

// TestOutcomesStayApart is promise 8.
func TestOutcomesStayApart(t *testing.T) {
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("left"))
	down := fmt.Errorf("%w: connection refused", ErrUnavailable)
	bug := fmt.Errorf("%w: WRONGTYPE", ErrBackendBug)
	for _, c := range []struct {
		name    string
		ctx     context.Context
		err     error
		rules   []OnUnavailable
		outcome Outcome
		allowed bool
		is      []error
		isNot   []error
	}{
		{"local without fallback is served", context.Background(), down, []OnUnavailable{Local, Allow}, OutcomeUnlimited, true, []error{ErrUnavailable}, []error{ErrBackendBug}},
		{"one deny is enough", context.Background(), down, []OnUnavailable{Allow, Deny, Local}, OutcomeUnavailable, false, []error{ErrUnavailable}, []error{ErrBackendBug}},
		{"a bug is unavailable", context.Background(), bug, []OnUnavailable{Deny}, OutcomeUnavailable, false, []error{ErrUnavailable, ErrBackendBug}, nil},
		{"an error without a class is a bug", context.Background(), errors.New("odd"), []OnUnavailable{Allow}, OutcomeUnlimited, true, []error{ErrUnavailable, ErrBackendBug}, nil},
		{"the caller left", canceled, fmt.Errorf("take: %w", context.Cause(canceled)), []OnUnavailable{Deny}, OutcomeCanceled, false, []error{context.Cause(canceled)}, []error{ErrUnavailable}},
		{"away, and the caller left", canceled, down, []OnUnavailable{Deny}, OutcomeUnavailable, false, []error{ErrUnavailable}, nil},
	} {
		var rules []Rule
		for i, on := range c.rules {
			rules = append(rules, Rule{Name: fmt.Sprintf("r%d", i), Rate: Rate{10, time.Second}, OnUnavailable: on})
		}
		var r recorder
		l := newLimiter(t, &fakeBackend{take: func(context.Context, []Charge, []Verdict) error { return c.err }}, table(method("/a.S/M", rules...)), r.observe())
		d := l.Decide(c.ctx, &Call{Method: "/a.S/M"})
		if d.Outcome != c.outcome || d.Allowed() != c.allowed || len(d.Verdicts) != 0 || d.Quota() != "" || d.RetryAfter() != 0 {
			t.Errorf("%s: %v, allowed %t, verdicts %v; want %v, %t and none", c.name, d.Outcome, d.Allowed(), d.Verdicts, c.outcome, c.allowed)
		}
		for _, e := range c.is {
			if !errors.Is(d.Err, e) {
				t.Errorf("%s: error is %v, want one that wraps %v", c.name, d.Err, e)
			}
		}
		for _, e := range c.isNot {
			if errors.Is(d.Err, e) {
				t.Errorf("%s: error is %v, want none that wraps %v", c.name, d.Err, e)
			}
		}
		if len(r.decisions) != 1 || r.decisions[0].outcome != c.outcome || r.decisions[0].err == nil {
			t.Errorf("%s: the observer saw %v", c.name, r.decisions)
		}
	}
}

func TestPanickingFunctionFailsItsCallAlone(t *testing.T) {
	broken := func(context.Context) (string, bool) { panic("boom") }
	part := func(s Source, name string) Rule {
		return Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: s, Name: name}}}
	}
	field := Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceField, Name: "f", Class: ClassText, Field: func([]byte, any) ([]byte, bool) { panic("boom") }}}}
	var r recorder
	l := newLimiter(t, &fakeBackend{take: func(context.Context, []Charge, []Verdict) error {
		t.Error("the backend was asked")
		return nil
	}}, table(
		method("/a.S/Principal", part(SourcePrincipal, "")), method("/a.S/Attr", part(SourceAttr, "tier")), method("/a.S/Field", field),
		Method{Name: "/a.S/Cost", Rules: []Rule{good()}, Cost: Cost{Path: "n", Field: func(any) int64 { panic("boom") }}},
	), WithPrincipal(broken), WithAttr("tier", broken), r.observe())
	for i, name := range []string{"/a.S/Principal", "/a.S/Attr", "/a.S/Field", "/a.S/Cost"} {
		d := l.Decide(context.Background(), &Call{Method: name})
		if d.Outcome != OutcomeFailed || d.Allowed() || !errors.Is(d.Err, ErrKeyFunc) || !strings.Contains(d.Err.Error(), "boom") {
			t.Errorf("%s: %v, %v; want failed by ErrKeyFunc", name, d.Outcome, d.Err)
		}
		if len(r.decisions) != i+1 || r.decisions[i].outcome != OutcomeFailed || r.decisions[i].method != name {
			t.Errorf("%s: the observer saw %v", name, r.decisions)
		}
		d.Done(context.Background(), 13)
	}
}

// known marks contexts of callers that have a principal.
type known struct{}

// TestMissingPartIsSharedObservedAndLimited is promise 7's last sentence.
func TestMissingPartIsSharedObservedAndLimited(t *testing.T) {
	var keys []string
	var log bytes.Buffer
	var r recorder
	l := newLimiter(t, &fakeBackend{take: func(_ context.Context, charges []Charge, _ []Verdict) error {
		keys = append(keys, string(charges[0].Key))
		return nil
	}}, table(method("/a.S/M", Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourcePrincipal}}})),
		WithPrincipal(func(ctx context.Context) (string, bool) { return "alice", ctx.Value(known{}) != nil }),
		r.observe(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 3 {
		l.Decide(context.Background(), &Call{Method: "/a.S/M"})
	}
	l.Decide(context.WithValue(context.Background(), known{}, true), &Call{Method: "/a.S/M"})
	if fmt.Sprintf("%q", keys) != `["n" "n" "n" "t\x05alice"]` {
		t.Errorf("charged to %q", keys)
	}
	for i, want := range []bool{true, true, true, false} {
		if r.decisions[i].missing != want {
			t.Errorf("call %d: missing is %t, want %t", i, r.decisions[i].missing, want)
		}
	}
	if n := strings.Count(log.String(), "part=principal"); n != 1 {
		t.Errorf("warned %d times, want once:\n%s", n, &log)
	}
}

// TestCallsWithoutAVerdictAreLoggedOnceEach: a panic, an outage and a bug leave a
// trace without an observer too, but do not flood the log.
func TestCallsWithoutAVerdictAreLoggedOnceEach(t *testing.T) {
	var log bytes.Buffer
	var err error
	l := newLimiter(t, &fakeBackend{take: func(context.Context, []Charge, []Verdict) error { return err }}, table(
		method("/a.S/M", good()),
		method("/a.S/Panics", Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourcePrincipal}}}),
	), WithPrincipal(func(context.Context) (string, bool) { panic("boom") }), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	log.Reset()
	for _, err = range []error{ErrUnavailable, ErrBackendBug, ErrUnavailable, nil, ErrBackendBug} {
		l.Decide(context.Background(), &Call{Method: "/a.S/M"})
		l.Decide(context.Background(), &Call{Method: "/a.S/Panics"})
	}
	for text, want := range map[string]int{"boom": 1, "bug or set-up": 1, "outcome=unlimited": 2, "level=ERROR": 3} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", text, n, want, &log)
		}
	}
}

// TestHealthAndReflectionAreNeverLimited is promise 9.
func TestHealthAndReflectionAreNeverLimited(t *testing.T) {
	guard := WithDefaultRules(Rule{Name: "guard", Rate: Rate{1, time.Minute}})
	tab := table(method("/a.S/M", good()), Method{Name: "/a.S/Exempt", Exempt: true}, method("/a.S/Bare"))
	var buckets []string
	backend := &fakeBackend{fallback: true, take: func(_ context.Context, charges []Charge, _ []Verdict) error {
		buckets = append(buckets, charges[0].Limit.Bucket())
		return nil
	}}
	for name, want := range map[string]string{
		"/a.S/M":                        "[/a.S/M#burst]",
		"/a.S/Exempt":                   "[]",
		"/a.S/Bare":                     "[*#guard]",
		"/b.T/Other":                    "[*#guard]",
		"":                              "[*#guard]",
		"/grpc.health.v1.Health/Check":  "[]",
		"/grpc.health.v1.Health/Watch":  "[]",
		"/grpc.health.v1.HealthX/Check": "[*#guard]",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      "[]",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "[]",
	} {
		buckets = nil
		d := newLimiter(t, backend, tab, guard).Decide(context.Background(), &Call{Method: name})
		if fmt.Sprint(buckets) != want || !d.Allowed() {
			t.Errorf("%q charges %v, want %s", name, buckets, want)
		}
	}
	buckets = nil
	named := newLimiter(t, backend, table(method("/grpc.health.v1.Health/Check", good())), guard)
	named.Decide(context.Background(), &Call{Method: "/grpc.health.v1.Health/Check"})
	if want := "[/grpc.health.v1.Health/Check#burst]"; fmt.Sprint(buckets) != want {
		t.Errorf("a rule that names a health check charges %v, want %s", buckets, want)
	}
}

func TestMethodWithoutRulesIsNotLimited(t *testing.T) {
	var r recorder
	l := newLimiter(t, &fakeBackend{take: func(context.Context, []Charge, []Verdict) error {
		t.Error("the backend was asked")
		return nil
	}}, table(method("/a.S/M", good())), r.observe())
	d := l.Decide(context.Background(), &Call{Method: "/a.S/Other"})
	if !d.Allowed() || d.Binding != -1 || d.Policy() != "" || d.Quota() != "" || d.RetryAfter() != 0 || d.Cost() != 0 {
		t.Errorf("decision is %+v, want allowed and empty", d)
	}
	if len(r.decisions) != 0 {
		t.Errorf("the observer saw %v, want nothing", r.decisions)
	}
}

func TestDoneGivesBackOnTheCodesThatSaySo(t *testing.T) {
	left, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name    string
		refund  []Code
		code    Code
		verdict Verdict
		takeErr error
		want    string
	}{
		{"named", []Code{14, 0}, 14, Verdict{Allowed: true, Receipt: Receipt{At: 7}}, nil, "[/a.S/M#burst k -3 of 3 at 7 observed]"},
		{"OK", []Code{14, 0}, 0, Verdict{Allowed: true, Receipt: Receipt{At: 7}}, nil, "[/a.S/M#burst k -3 of 3 at 7 observed]"},
		{"another", []Code{14}, 0, Verdict{Allowed: true}, nil, "[]"},
		{"none named", nil, 14, Verdict{Allowed: true}, nil, "[]"},
		{"beyond the codes", []Code{14}, 46, Verdict{Allowed: true}, nil, "[]"},
		{"refused", []Code{8}, 8, Verdict{Reason: ReasonExceeded, RetryAfter: 1}, nil, "[]"},
		{"undecided", []Code{14}, 14, Verdict{}, ErrUnavailable, "[]"},
	} {
		var got []string
		backend := &fakeBackend{
			take: func(_ context.Context, _ []Charge, verdicts []Verdict) error {
				verdicts[0] = c.verdict
				return c.takeErr
			},
			adjust: func(ctx context.Context, deltas []Delta) error {
				for _, d := range deltas {
					got = append(got, fmt.Sprintf("%s %s %d of %d at %d", d.Limit.Bucket(), d.Key[2:], d.Units, d.Cost, d.Receipt.At))
				}
				return ctx.Err()
			},
		}
		r := good()
		r.Key = []KeyPart{{Source: SourcePrincipal}}
		l := newLimiter(t, backend, table(Method{Name: "/a.S/M", Rules: []Rule{r}, Cost: Cost{Units: 3}, RefundOn: c.refund}), WithPrincipal(value("k", true)))
		l.observer.Refund = func(_ context.Context, d *Decision, err error) {
			if err != nil || d.Method != "/a.S/M" {
				t.Errorf("%s: %s: %v: want the end of the call not to stop the refund", c.name, d.Method, err)
			}
			got = append(got, "observed")
		}
		l.Decide(left, &Call{Method: "/a.S/M"}).Done(left, c.code)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: gave back %v, want %s", c.name, got, c.want)
		}
	}
}

// TestFailedRefundIsSeen: a bug while giving back is nobody's answer, so the
// observer and the log have to tell it.
func TestFailedRefundIsSeen(t *testing.T) {
	var log bytes.Buffer
	var seen []error
	backend := &fakeBackend{adjust: func(context.Context, []Delta) error { return ErrBackendBug }}
	l := newLimiter(t, backend, table(Method{Name: "/a.S/M", Rules: []Rule{good()}, RefundOn: []Code{0}}),
		WithObserver(Observer{Refund: func(_ context.Context, _ *Decision, err error) { seen = append(seen, err) }}),
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 2 {
		l.Decide(context.Background(), &Call{Method: "/a.S/M"}).Done(context.Background(), 0)
	}
	if len(seen) != 2 || !errors.Is(seen[0], ErrBackendBug) || strings.Count(log.String(), "not given back") != 1 {
		t.Errorf("the observer saw %v, want the bug twice; the log has\n%s\nwant it once", seen, &log)
	}
}

// TestDefaultRulesAgreeWithTheTable: they may share its buckets.
func TestDefaultRulesAgreeWithTheTable(t *testing.T) {
	one, other := good(), good()
	one.Bucket, other.Bucket, other.Rate.Count = "tenant", "tenant", 11
	_, err := New(table(method("/a.S/M", one)), &fakeBackend{}, WithDefaultRules(other))
	if want := `default rules: rule "burst": rate is "11/s", want "10/s" as in rule "burst" of /a.S/M, which shares bucket "tenant"`; err == nil || err.Error() != want {
		t.Errorf("New: %v\nwant %s", err, want)
	}
}

// TestMissingIsOfTheRule: a part that one rule lacks is not lacking in others.
func TestMissingIsOfTheRule(t *testing.T) {
	with := func(name string, parts ...KeyPart) Rule {
		return Rule{Name: name, Rate: Rate{10, time.Second}, Key: parts}
	}
	ip, principal := KeyPart{Source: SourceIP}, KeyPart{Source: SourcePrincipal}
	l := newLimiter(t, &fakeBackend{}, table(method("/a.S/M", with("a", ip), with("b", principal), with("c"), with("d", ip, principal))),
		WithPrincipal(value("", false)))
	d := l.Decide(context.Background(), &Call{Method: "/a.S/M", Transport: &fakeTransport{}})
	for i, want := range []bool{false, true, false, true} {
		if d.Missing(i) != want {
			t.Errorf("rule %s: Missing is %t, want %t", d.Rules[i].Name, d.Missing(i), want)
		}
	}
}

// TestTheTableIsTheLimitersOwn: changing it afterwards changes nothing.
func TestTheTableIsTheLimitersOwn(t *testing.T) {
	tab := table(method("/a.S/M", Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceIP}}}))
	l := newLimiter(t, &fakeBackend{}, tab)
	tab[0].Rules[0].Name, tab[0].Rules[0].Key[0].Source = "changed", SourcePrincipal
	if r := l.Decide(context.Background(), &Call{Method: "/a.S/M"}).Rules[0]; r.Name != "r" || r.Key[0].Source != SourceIP {
		t.Errorf("the limiter's rule is now %+v", r)
	}
}

// TestLargeKeysAreNotKept: one large field does not stay in the pool.
func TestLargeKeysAreNotKept(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceField, Name: "f", Class: ClassText, Field: textField}}}
	l := newLimiter(t, &fakeBackend{}, table(method("/a.S/M", r)))
	d := l.Decide(context.Background(), &Call{Method: "/a.S/M", Request: long})
	d.Done(context.Background(), 0)
	if cap(d.key.bytes) > maxKept || cap(d.charges[:1][0].Key) > maxKept {
		t.Errorf("a decision in the pool holds %d bytes, want at most %d", max(cap(d.key.bytes), cap(d.charges[:1][0].Key)), maxKept)
	}
}

func TestNewErrors(t *testing.T) {
	backend := &fakeBackend{}
	keyed := func(p KeyPart) Table {
		return table(method("/a.S/M", Rule{Name: "r", Rate: Rate{10, time.Second}, Key: []KeyPart{p}}))
	}
	for _, c := range []struct {
		table   Table
		backend Backend
		opts    []Option
		want    string
	}{
		{nil, nil, nil, `ratelimit: New: backend is nil, want one such as memory.New's`},
		{table(method("x", good())), backend, nil, `x: method is "x", want /package.Service/Method`},
		{keyed(KeyPart{Source: SourcePrincipal}), backend, nil, `/a.S/M: rule "r": key is "principal", want WithPrincipal among the options of New`},
		{keyed(KeyPart{Source: SourceAttr, Name: "tier"}), backend, []Option{WithAttr("other", value("", true))}, `/a.S/M: rule "r": key is "attr:tier", want WithAttr("tier", ...) among the options of New`},
		{nil, backend, []Option{WithPrincipal(nil)}, `ratelimit: WithPrincipal: there is no function or two, want one`},
		{nil, backend, []Option{WithPrincipal(value("", true)), WithPrincipal(value("", true))}, `ratelimit: WithPrincipal: there is no function or two, want one`},
		{nil, backend, []Option{nil}, `ratelimit: New: an option is nil, want one of the With functions`},
		{nil, backend, []Option{WithAttr("a b", value("", true))}, `ratelimit: WithAttr: name is "a b", want attr:NAME with a letter and up to 62 letters, digits, '_', '.' and '-'`},
		{nil, backend, []Option{WithAttr("a", nil)}, `ratelimit: WithAttr: "a" has no function or two, want one`},
		{nil, backend, []Option{WithAttr("a", value("", true)), WithAttr("a", value("", true))}, `ratelimit: WithAttr: "a" has no function or two, want one`},
		{nil, backend, []Option{WithIPv6Prefix(0)}, `ratelimit: WithIPv6Prefix: bits is 0, want 1 to 128`},
		{nil, backend, []Option{WithIPv6Prefix(129)}, `ratelimit: WithIPv6Prefix: bits is 129, want 1 to 128`},
		{nil, backend, []Option{WithTrustedProxies(netip.Prefix{})}, `ratelimit: WithTrustedProxies: network is invalid Prefix, want a valid prefix such as 10.0.0.0/8`},
		{nil, backend, []Option{WithClientIP(nil)}, `ratelimit: WithClientIP: function is nil, want one`},
		{nil, backend, []Option{WithLogger(nil)}, `ratelimit: WithLogger: logger is nil, want one`},
		{nil, backend, []Option{WithDefaultRules(Rule{Name: "g"})}, `default rules: rule "g": rate is "0/0s", want a window of 1ms to 366d`},
	} {
		_, err := New(c.table, c.backend, c.opts...)
		if err == nil || err.Error() != c.want {
			t.Errorf("New(%v)\n got %v\nwant %s", c.table, err, c.want)
		}
	}
}

func TestNewWarnsWithoutFallback(t *testing.T) {
	denies := good()
	denies.OnUnavailable = Deny
	for _, c := range []struct {
		name     string
		fallback bool
		rule     Rule
		opts     []Option
		want     int
	}{
		{"local and no fallback", false, good(), nil, 1},
		{"local and a fallback", true, good(), nil, 0},
		{"nothing local", false, denies, nil, 0},
		{"default rules", false, denies, []Option{WithDefaultRules(good())}, 1},
	} {
		var log bytes.Buffer
		tab := table(method("/a.S/One", c.rule), method("/a.S/Two", c.rule))
		if _, err := New(tab, &fakeBackend{fallback: c.fallback}, append(c.opts, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "no fallback"); n != c.want {
			t.Errorf("%s: warned %d times, want %d:\n%s", c.name, n, c.want, &log)
		}
	}
}
