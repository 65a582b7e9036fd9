package interceptor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

func TestEveryKindOfCallIsCharged(t *testing.T) {
	for _, method := range allMethods {
		t.Run(method, func(t *testing.T) {
			backend := &counter{}
			l := newLimiter(t, table([]ratelimit.Rule{rule("burst", 2)}, method), backend)
			conn := serve(t, l, nil)
			for i := range 4 {
				err := call(t.Context(), conn, method, "x")
				if isRefused := interceptor.IsRefused(err); isRefused != (i >= 2) || !isRefused && err != nil {
					t.Errorf("call %d: %v, want two served and the others refused", i, err)
				}
			}
			if n := backend.total(); n != 2 {
				t.Errorf("charged %d units, want 2", n)
			}
		})
	}
}

func TestMethodWithoutRulesIsServed(t *testing.T) {
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", 0)}, unary), &counter{})
	conn := serve(t, l, nil)
	if err := call(t.Context(), conn, bidi, "x"); err != nil {
		t.Errorf("call without rules: %v, want it served", err)
	}
	if err := call(t.Context(), conn, unary, "x"); !interceptor.IsRefused(err) {
		t.Errorf("call with a rule of 0: %v, want it refused", err)
	}
}

func TestNilLimiterPanicsAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"UnaryServer":  func() { interceptor.UnaryServer(nil) },
		"StreamServer": func() { interceptor.StreamServer(nil) },
	} {
		func() {
			defer func() {
				want := "interceptor: " + name + ": limiter is nil, want one from ratelimit.New"
				if r := recover(); r != want {
					t.Errorf("%s(nil) panics with %v, want %q", name, r, want)
				}
			}()
			f()
		}()
	}
}

// fail is a backend that decides nothing.
func fail(err error) backendFunc {
	return func(context.Context, []ratelimit.Charge, []ratelimit.Verdict) error { return err }
}

func TestUnavailableBackend(t *testing.T) {
	const secret = "dial tcp 10.1.2.3:6379"
	for _, err := range []error{
		fmt.Errorf("%w: %s", ratelimit.ErrUnavailable, secret),
		fmt.Errorf("%w: %s", ratelimit.ErrBackendBug, secret),
		errors.New(secret),
	} {
		for _, on := range []ratelimit.OnUnavailable{ratelimit.Local, ratelimit.Allow, ratelimit.Deny} {
			for _, method := range allMethods {
				r := rule("r", 10)
				r.OnUnavailable = on
				seen := &log{}
				conn := serve(t, newLimiter(t, table([]ratelimit.Rule{r}, method), fail(err), observe(seen.saw)), nil)
				var trailer metadata.MD
				got := call(t.Context(), conn, method, "x", grpc.Trailer(&trailer))
				wantCode, wantOutcome := codes.OK, ratelimit.OutcomeUnlimited
				if on == ratelimit.Deny {
					wantCode, wantOutcome = codes.Unavailable, ratelimit.OutcomeUnavailable
				}
				outcome, cause := seen.last()
				if status.Code(got) != wantCode || outcome != wantOutcome || !errors.Is(cause, ratelimit.ErrUnavailable) {
					t.Errorf("%v, %v, %s: ended with %v and was seen as %v: %v, want %v and %v", err, on, method, got, outcome, cause, wantCode, wantOutcome)
				}
				if on != ratelimit.Deny {
					continue
				}
				const want = "the rate limiter is unavailable"
				if s := status.Convert(got); s.Message() != want || strings.Contains(s.Proto().String(), "10.1.2.3") {
					t.Errorf("status is %v, want %q and nothing of the cause", s.Proto(), want)
				}
				if reason, domain := errorInfo(got); reason != "RATE_LIMITER_UNAVAILABLE" || domain != interceptor.Domain {
					t.Errorf("reason is %q of %q, want RATE_LIMITER_UNAVAILABLE of %q", reason, domain, interceptor.Domain)
				}
				if trailer.Len() != 0 && trailer.Get("grpc-retry-pushback-ms") != nil || interceptor.IsRefused(got) {
					t.Errorf("trailers are %v and IsRefused is %v, want no pushback and false", trailer, interceptor.IsRefused(got))
				}
			}
		}
	}
}

func TestCallerWhoLeaves(t *testing.T) {
	blocked := backendFunc(func(ctx context.Context, _ []ratelimit.Charge, _ []ratelimit.Verdict) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	secret := errors.New("shard 3 is draining")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(secret)
	expired, cancelExpired := context.WithTimeoutCause(t.Context(), time.Nanosecond, secret)
	defer cancelExpired()
	for _, tt := range []struct {
		ctx  context.Context
		code codes.Code
	}{{canceled, codes.Canceled}, {expired, codes.DeadlineExceeded}} {
		r := rule("r", 10)
		r.OnUnavailable = ratelimit.Deny
		seen := &log{}
		intercept := interceptor.UnaryServer(newLimiter(t, table([]ratelimit.Rule{r}, unary), blocked, observe(seen.saw)))
		_, err := intercept(tt.ctx, nil, unaryInfo, func(context.Context, any) (any, error) {
			t.Error("handler runs")
			return nil, nil
		})
		if status.Code(err) != tt.code || strings.Contains(err.Error(), secret.Error()) {
			t.Errorf("call ended with %v, want %v without the cause", err, tt.code)
		}
		if outcome, cause := seen.last(); outcome != ratelimit.OutcomeCanceled || !errors.Is(cause, secret) {
			t.Errorf("call was seen as %v: %v, want canceled: %v", outcome, cause, secret)
		}
	}
}

// The same with a real client, whose server goes on.
func TestClientWhoLeaves(t *testing.T) {
	entered := make(chan struct{})
	left := make(chan ratelimit.Outcome, 1)
	backend := backendFunc(func(ctx context.Context, _ []ratelimit.Charge, _ []ratelimit.Verdict) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	observer := func(_ context.Context, d *ratelimit.Decision) { left <- d.Outcome }
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, unary), backend, observe(observer)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if err := call(ctx, conn, unary, "x"); status.Code(err) != codes.Canceled {
		t.Errorf("call ended with %v, want CANCELED", err)
	}
	if outcome := <-left; outcome != ratelimit.OutcomeCanceled {
		t.Errorf("call was seen as %v, want canceled", outcome)
	}
	if err := call(t.Context(), conn, bidi, "x"); err != nil {
		t.Errorf("next call: %v, want it served", err)
	}
}

func TestPanickingKeyFunction(t *testing.T) {
	seen := &log{}
	tenant := func(ctx context.Context) (string, bool) {
		if metadata.ValueFromIncomingContext(ctx, "x-bad") != nil {
			panic("tenant table of 10.1.2.3 is nil")
		}
		return "t", true
	}
	for _, method := range allMethods {
		l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10, part(ratelimit.SourceAttr, "tenant"))}, method), &counter{},
			ratelimit.WithAttr("tenant", tenant), observe(seen.saw))
		conn := serve(t, l, nil)
		err := call(metadata.AppendToOutgoingContext(t.Context(), "x-bad", "1"), conn, method, "x")
		if s := status.Convert(err); s.Code() != codes.Internal || s.Message() != "the rate limiter failed" || len(s.Details()) != 0 {
			t.Errorf("%s: call ended with %v, want INTERNAL and nothing of the panic", method, s.Proto())
		}
		if outcome, cause := seen.last(); outcome != ratelimit.OutcomeFailed || !errors.Is(cause, ratelimit.ErrKeyFunc) || !strings.Contains(cause.Error(), "10.1.2.3") {
			t.Errorf("%s: call was seen as %v: %v, want failed with the panic", method, outcome, cause)
		}
		if err := call(t.Context(), conn, method, "x"); err != nil {
			t.Errorf("%s: next call: %v, want it served", method, err)
		}
	}
}

func TestRefundOn(t *testing.T) {
	for _, tt := range []struct {
		on   string
		err  error
		kept int64
	}{
		{"UNAVAILABLE", status.Error(codes.Unavailable, "down"), 0},
		{"UNAVAILABLE", fmt.Errorf("wrapped: %w", status.Error(codes.Unavailable, "down")), 0},
		{"UNAVAILABLE", status.Error(codes.Internal, "bug"), 1},
		{"UNAVAILABLE", nil, 1},
		{"OK", nil, 0},
		{"OK", errors.New("plain"), 1},
		{"UNKNOWN", errors.New("plain"), 0},
		{"DEADLINE_EXCEEDED", fmt.Errorf("database: %w", context.DeadlineExceeded), 0},
		{"CANCELLED", context.Canceled, 0},
		{"UNKNOWN", context.Canceled, 1},
	} {
		code, err := ratelimit.ParseCode(tt.on)
		if err != nil {
			t.Fatal(err)
		}
		backend := &counter{}
		tab := table([]ratelimit.Rule{rule("r", 10)}, unary, bidi)
		tab[0].RefundOn, tab[1].RefundOn = []ratelimit.Code{code}, []ratelimit.Code{code}
		conn := serve(t, newLimiter(t, tab, backend), &echo{
			unary:  func(_ context.Context, m *text) (*text, error) { return m, tt.err },
			stream: func(grpc.ServerStream) error { return tt.err },
		})
		got := call(t.Context(), conn, unary, "x")
		if backend.total() != tt.kept {
			t.Errorf("refund on %s, handler ends with %v: %d units kept, want %d", tt.on, tt.err, backend.total(), tt.kept)
		}
		if client := ratelimit.Code(status.Code(got)).String(); (client == tt.on) != (tt.kept == 0) {
			t.Errorf("refund on %s, handler ends with %v: client sees %s and %d units are kept", tt.on, tt.err, client, tt.kept)
		}
		before := backend.total()
		_ = call(t.Context(), conn, bidi, "x")
		if backend.total() != before+1 {
			t.Errorf("refund on %s, stream ends with %v: %d units kept, want 1", tt.on, tt.err, backend.total()-before)
		}
	}
}

// TestPanickingHandler: a panic passes through, and counts as INTERNAL, which is
// what a recovering interceptor further out makes of it.
func TestPanickingHandler(t *testing.T) {
	for _, tt := range []struct {
		refundOn []ratelimit.Code
		kept     int64
	}{
		{[]ratelimit.Code{0, 2, 14}, 2},
		{[]ratelimit.Code{13}, 0},
	} {
		backend := &counter{}
		tab := table([]ratelimit.Rule{rule("r", 10)}, unary)
		tab[0].RefundOn = tt.refundOn
		intercept := interceptor.UnaryServer(newLimiter(t, tab, backend))
		for range 2 {
			func() {
				defer func() {
					if r := recover(); r != "handler" {
						t.Errorf("recovered %v, want the handler's panic", r)
					}
				}()
				_, _ = intercept(t.Context(), nil, unaryInfo, func(context.Context, any) (any, error) { panic("handler") })
			}()
		}
		if n := backend.total(); n != tt.kept {
			t.Errorf("refund on %v: %d units kept, want %d", tt.refundOn, n, tt.kept)
		}
	}
}

type principal struct{}

func TestOrderWithAuthentication(t *testing.T) {
	authenticate := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		who := metadata.ValueFromIncomingContext(ctx, "x-user")
		return next(context.WithValue(ctx, principal{}, who[0]), request)
	}
	fromAuth := func(ctx context.Context) (string, bool) {
		who, ok := ctx.Value(principal{}).(string)
		return who, ok
	}
	for _, tt := range []struct {
		name             string
		chain            func(limit grpc.UnaryServerInterceptor) grpc.ServerOption
		buckets, missing int
		warnings         int
	}{
		{"after", func(limit grpc.UnaryServerInterceptor) grpc.ServerOption {
			return grpc.ChainUnaryInterceptor(authenticate, limit)
		}, 2, 0, 0},
		{"before", func(limit grpc.UnaryServerInterceptor) grpc.ServerOption {
			return grpc.ChainUnaryInterceptor(limit, authenticate)
		}, 1, 4, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			backend, seen := &counter{}, &log{}
			l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10, part(ratelimit.SourcePrincipal))}, unary), backend,
				ratelimit.WithPrincipal(fromAuth), observe(seen.saw), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
			conn := start(t, grpc.NewServer(tt.chain(interceptor.UnaryServer(l))), nil)
			for _, who := range []string{"alice", "bob", "alice", "bob"} {
				if err := call(metadata.AppendToOutgoingContext(t.Context(), "x-user", who), conn, unary, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if n := backend.buckets(); n != tt.buckets || seen.missing != tt.missing {
				t.Errorf("%d buckets and %d calls without principal, want %d and %d", n, seen.missing, tt.buckets, tt.missing)
			}
			if n := strings.Count(out.String(), "level=WARN"); n != tt.warnings {
				t.Errorf("%d warnings, want %d:\n%s", n, tt.warnings, &out)
			}
		})
	}
}

// Interceptors further out see the refusal as it is, those further in nothing.
func TestChain(t *testing.T) {
	var outer error
	inner := 0
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			var response any
			response, outer = next(ctx, request)
			return response, outer
		},
		interceptor.UnaryServer(newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, unary), &counter{})),
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			inner++
			return next(ctx, request)
		},
	))
	conn := start(t, srv, nil)
	if err := call(t.Context(), conn, unary, "x"); err != nil || outer != nil || inner != 1 {
		t.Errorf("first call: %v, outer saw %v, inner ran %d times, want it served", err, outer, inner)
	}
	if err := call(t.Context(), conn, unary, "x"); !interceptor.IsRefused(err) || !interceptor.IsRefused(outer) || inner != 1 {
		t.Errorf("second call: %v, outer saw %v, inner ran %d times, want it refused", err, outer, inner)
	}
}
