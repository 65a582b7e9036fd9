package interceptor_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// refuse answers each charge by the verdict of its rule; others are granted.
func refuse(verdicts map[string]ratelimit.Verdict) backendFunc {
	return func(_ context.Context, charges []ratelimit.Charge, answers []ratelimit.Verdict) error {
		for i, c := range charges {
			_, name, _ := strings.Cut(c.Limit.Bucket(), "#")
			v, ok := verdicts[name]
			if !ok {
				v = granted
			}
			answers[i] = v
		}
		return nil
	}
}

func TestRefusalDetails(t *testing.T) {
	wait := func(d time.Duration) ratelimit.Verdict {
		return ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: d}
	}
	burst := rule("burst", 10, part(ratelimit.SourceIP), textField)
	burst.Burst = 20
	service := rule("service", 1000)
	service.Scope = ratelimit.ScopeService
	rules := []ratelimit.Rule{burst, rule("daily", 500, part(ratelimit.SourceMetadata, "authorization")), service}

	violation := map[string]*errdetails.QuotaFailure_Violation{
		"burst": {
			Subject: "ip, field:value", Description: "10/m, burst 20", ApiService: "test.v1.Echo", QuotaMetric: unary, QuotaId: "burst",
			QuotaDimensions: map[string]string{"field:value": "größe"}, QuotaValue: 10,
		},
		"daily": {
			Subject: "metadata:authorization", Description: "500/m", ApiService: "test.v1.Echo", QuotaMetric: unary, QuotaId: "daily", QuotaValue: 500,
		},
		"service": {
			Subject: "all callers", Description: "1000/m", ApiService: "test.v1.Echo", QuotaMetric: "test.v1.Echo", QuotaId: "service", QuotaValue: 1000,
		},
	}
	info := func(reason, rule string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Reason: reason, Domain: interceptor.Domain, Metadata: map[string]string{"rule": rule, "method": unary}}
	}
	retry := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	failure := func(names ...string) *errdetails.QuotaFailure {
		f := &errdetails.QuotaFailure{}
		for _, name := range names {
			f.Violations = append(f.Violations, violation[name])
		}
		return f
	}

	for _, tt := range []struct {
		name     string
		verdicts map[string]ratelimit.Verdict
		message  string
		want     []proto.Message
	}{
		{
			"one rule",
			map[string]ratelimit.Verdict{"burst": wait(1500 * time.Millisecond)},
			`rate limit exceeded: rule "burst"`,
			[]proto.Message{info("RATE_LIMIT_EXCEEDED", "burst"), retry(1500 * time.Millisecond), failure("burst")},
		},
		{
			"all rules, the longest wait binds",
			map[string]ratelimit.Verdict{"burst": wait(time.Second), "daily": wait(time.Hour), "service": wait(time.Microsecond)},
			`rate limit exceeded: rule "daily"`,
			[]proto.Message{info("RATE_LIMIT_EXCEEDED", "daily"), retry(time.Hour), failure("daily", "burst", "service")},
		},
		{
			"never",
			map[string]ratelimit.Verdict{"burst": {Reason: ratelimit.ReasonNever, RetryAfter: ratelimit.Never}},
			`rate limit exceeded: rule "burst" can never grant a cost of 1`,
			[]proto.Message{info("COST_ABOVE_LIMIT", "burst"), failure("burst")},
		},
		{
			"shortest wait",
			map[string]ratelimit.Verdict{"service": wait(time.Microsecond)},
			`rate limit exceeded: rule "service"`,
			[]proto.Message{info("RATE_LIMIT_EXCEEDED", "service"), retry(time.Microsecond), failure("service")},
		},
		{
			"longest wait",
			map[string]ratelimit.Verdict{"service": wait(ratelimit.MaxWait)},
			`rate limit exceeded: rule "service"`,
			[]proto.Message{info("RATE_LIMIT_EXCEEDED", "service"), retry(ratelimit.MaxWait), failure("service")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := serve(t, newLimiter(t, table(rules, unary), refuse(tt.verdicts)), nil)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "secret")
			err := call(ctx, conn, unary, "größe")
			s := status.Convert(err)
			if s.Code() != codes.ResourceExhausted || s.Message() != tt.message {
				t.Errorf("status is %v, want RESOURCE_EXHAUSTED: %s", s, tt.message)
			}
			for i, got := range s.Details() {
				if i >= len(tt.want) || !proto.Equal(got.(proto.Message), tt.want[i]) {
					t.Errorf("detail %d is %v, want %v", i, got, tt.want[min(i, len(tt.want)-1)])
				}
			}
			if n := len(s.Details()); n != len(tt.want) {
				t.Errorf("%d details, want %d", n, len(tt.want))
			}
		})
	}
}

// Many rules, long names and long values must not make a response that a client
// with a small limit for metadata cannot read.
func TestRefusalFitsIntoSmallHeaderLists(t *testing.T) {
	long := func(prefix string) string { return prefix + strings.Repeat("x", 60) }
	var rules []ratelimit.Rule
	verdicts := map[string]ratelimit.Verdict{}
	for i := range ratelimit.MaxRules {
		r := rule(long(string(rune('a'+i%26))+string(rune('a'+i/26))), 1000, part(ratelimit.SourceIP))
		for _, name := range []string{"p", "q", "r", "s", "t", "u", "v", "w"} {
			field := textField
			field.Name = long(name)
			r.Key = append(r.Key, field)
		}
		rules = append(rules, r)
		verdicts[r.Name] = refused
	}
	l := newLimiter(t, table(rules, unary), refuse(verdicts))
	srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)))
	conn := dial(t, "passthrough:///"+listen(t, srv, nil), grpc.WithMaxHeaderListSize(8<<10))

	var trailer metadata.MD
	err := call(t.Context(), conn, unary, strings.Repeat("v", 128), grpc.Trailer(&trailer))
	if wait, ok := interceptor.RetryAfter(err); !interceptor.IsRefused(err) || !ok || wait != refused.RetryAfter {
		t.Fatalf("call ended with %v, want a refusal with all details", err)
	}
	if len(trailer.Get("ratelimit")) != 1 || len(trailer.Get("ratelimit-policy")) != 1 {
		t.Errorf("trailers are %v, want the quota", trailer)
	}
}

// TestPushbackBeyondTheDeadline: a client that obeyed would sleep until its
// deadline and see that, not the refusal.
func TestPushbackBeyondTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want string
	}{{time.Minute, "60000"}, {2 * time.Hour, "-1"}} {
		v := ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: tt.wait}
		l := newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, unary), answer(v))
		conn := serve(t, l, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var trailer metadata.MD
		err := call(ctx, conn, unary, "x", grpc.Trailer(&trailer))
		cancel()
		if got := trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("wait of %v in an hour: pushback is %q, want %q", tt.wait, got, tt.want)
		}
		if wait, ok := interceptor.RetryAfter(err); !ok || wait != tt.wait {
			t.Errorf("wait of %v: RetryAfter = %v, %v, want it all the same", tt.wait, wait, ok)
		}
	}
}

func TestPushback(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want string
	}{
		{time.Microsecond, "1"},
		{time.Millisecond, "1"},
		{time.Millisecond + time.Microsecond, "2"},
		{1500 * time.Millisecond, "1500"},
		{math.MaxInt32 * time.Millisecond, "2147483647"},
		{math.MaxInt32*time.Millisecond + 1, "2147483647"},
		{ratelimit.MaxWait, "2147483647"},
		{ratelimit.Never, "-1"},
	} {
		for _, method := range []string{unary, bidi} {
			v := ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: tt.wait}
			conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, method), answer(v)), nil)
			var trailer metadata.MD
			err := call(t.Context(), conn, method, "x", grpc.Trailer(&trailer))
			if got := trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("%s: wait of %v: pushback is %q, want %q", method, tt.wait, got, tt.want)
			}
			wait, ok := interceptor.RetryAfter(err)
			if want := tt.wait != ratelimit.Never; ok != want || ok && wait != tt.wait {
				t.Errorf("%s: RetryAfter = %v, %v, want %v, %v", method, wait, ok, tt.wait, want)
			}
		}
	}
}

// Details are made in memory that is used again.
func TestConcurrentRefusalsAreApart(t *testing.T) {
	tab := ratelimit.Table{}
	for i := range 8 {
		tab = append(tab, table([]ratelimit.Rule{rule("rule-"+strconv.Itoa(i), int64(i)+1)}, "/a.S/M"+strconv.Itoa(i))...)
	}
	intercept := interceptor.UnaryServer(newLimiter(t, tab, answer(refused)))
	var group sync.WaitGroup
	for i := range tab {
		group.Go(func() {
			ctx := incoming(&transportStream{})
			for range 200 {
				_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: tab[i].Name}, pass)
				for _, detail := range status.Convert(err).Details() {
					if failure, ok := detail.(*errdetails.QuotaFailure); ok {
						if got := failure.GetViolations()[0]; got.GetQuotaId() != tab[i].Rules[0].Name || got.GetQuotaValue() != int64(i)+1 {
							t.Errorf("%s: violation is %v, want that of its own rule", tab[i].Name, got)
							return
						}
					}
				}
			}
		})
	}
	group.Wait()
}
