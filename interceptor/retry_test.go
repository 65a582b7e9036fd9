package interceptor_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// retryPolicy retries with a backoff so long that a call which succeeds did so
// by the server's pushback or at once.
const retryPolicy = `{"methodConfig": [{"name": [{"service": "test.v1.Echo"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "1000s", "maxBackoff": "1000s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// refuseFirst refuses n calls and counts all.
func refuseFirst(n int64, wait time.Duration, calls *atomic.Int64) backendFunc {
	return func(_ context.Context, _ []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		verdicts[0] = granted
		if calls.Add(1) <= n {
			verdicts[0] = ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: wait}
			if wait == ratelimit.Never {
				verdicts[0].Reason = ratelimit.ReasonNever
			}
		}
		return nil
	}
}

func TestClientObeysPushback(t *testing.T) {
	withHeader := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-served-by", "me"))
		return next(ctx, req)
	})
	withHeaderStream := grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		_ = s.SetHeader(metadata.Pairs("x-served-by", "me"))
		return next(srv, s)
	})
	for _, tt := range []struct {
		name     string
		policy   string
		outer    []grpc.ServerOption
		wait     time.Duration
		attempts int64
		code     codes.Code
	}{
		{"no policy", `{}`, nil, 20 * time.Millisecond, 1, codes.ResourceExhausted},
		{"policy", retryPolicy, nil, 20 * time.Millisecond, 3, codes.OK},
		{"policy, no wait will help", retryPolicy, nil, ratelimit.Never, 1, codes.ResourceExhausted},
		{"policy, header set further out", retryPolicy, []grpc.ServerOption{withHeader, withHeaderStream}, 20 * time.Millisecond, 1, codes.ResourceExhausted},
	} {
		for _, method := range allMethods {
			t.Run(tt.name+method, func(t *testing.T) {
				var calls atomic.Int64
				l := newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, method), refuseFirst(2, tt.wait, &calls))
				srv := grpc.NewServer(append(tt.outer,
					grpc.ChainUnaryInterceptor(interceptor.UnaryServer(l)), grpc.ChainStreamInterceptor(interceptor.StreamServer(l)))...)
				conn := dial(t, "passthrough:///"+listen(t, srv, nil), grpc.WithDefaultServiceConfig(tt.policy))
				start := time.Now()
				err := call(t.Context(), conn, method, "x")
				if status.Code(err) != tt.code || calls.Load() != tt.attempts {
					t.Errorf("call ended with %v after %d attempts, want %v after %d", err, calls.Load(), tt.code, tt.attempts)
				}
				if elapsed, least := time.Since(start), time.Duration(tt.attempts-1)*tt.wait; elapsed < least {
					t.Errorf("%d attempts took %v, want at least %v", tt.attempts, elapsed, least)
				}
			})
		}
	}
}

// A guard before authentication and a limiter after it must not spoil each
// other's refusals.
func TestTwoLimitersKeepPushback(t *testing.T) {
	for _, method := range allMethods {
		var calls atomic.Int64
		guard := newLimiter(t, table([]ratelimit.Rule{rule("guard", 10)}, method), answer(granted))
		inner := newLimiter(t, table([]ratelimit.Rule{rule("inner", 10)}, method), refuseFirst(2, time.Millisecond, &calls))
		srv := grpc.NewServer(
			grpc.ChainUnaryInterceptor(interceptor.UnaryServer(guard), interceptor.UnaryServer(inner)),
			grpc.ChainStreamInterceptor(interceptor.StreamServer(guard), interceptor.StreamServer(inner)),
		)
		conn := dial(t, "passthrough:///"+listen(t, srv, nil), grpc.WithDefaultServiceConfig(retryPolicy))
		var header metadata.MD
		if err := call(t.Context(), conn, method, "x", grpc.Header(&header)); err != nil || calls.Load() != 3 {
			t.Errorf("%s ended with %v after %d attempts, want OK after 3", method, err, calls.Load())
		}
		if got := header.Get("ratelimit"); len(got) != 2 {
			t.Errorf("%s: header ratelimit is %q, want both limiters'", method, got)
		}
	}
}

// The quota of a served call must not keep clients from retrying when the
// handler fails: a policy with the shortest backoff shows it.
func TestHandlerFailureIsStillRetried(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{"service": "test.v1.Echo"}], "retryPolicy": {"maxAttempts": 3,
		"initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	for _, method := range allMethods {
		var calls atomic.Int64
		fail := func() error {
			if calls.Add(1) < 3 {
				return status.Error(codes.Unavailable, "down")
			}
			return nil
		}
		e := &echo{
			unary:  func(_ context.Context, m *text) (*text, error) { return m, fail() },
			stream: func(grpc.ServerStream) error { return fail() },
		}
		l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10)}, method), answer(granted))
		srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)), grpc.StreamInterceptor(interceptor.StreamServer(l)))
		conn := dial(t, "passthrough:///"+listen(t, srv, e), grpc.WithDefaultServiceConfig(policy))
		if err := call(t.Context(), conn, method, "x"); status.Code(err) == codes.Unavailable || calls.Load() != 3 {
			t.Errorf("%s ended with %v after %d attempts, want it served after 3", method, err, calls.Load())
		}
	}
}

// A plain HTTP/2 client sees whether the status came with the first frame.
func TestRefusalIsTrailersOnly(t *testing.T) {
	perField := []ratelimit.Rule{rule("r", 1, textField)}
	for _, tt := range []struct {
		name, method string
		rules        []ratelimit.Rule
	}{
		{"unary", unary, []ratelimit.Rule{rule("r", 1)}},
		{"client stream", clientStream, []ratelimit.Rule{rule("r", 1)}},
		{"server stream", serverStream, []ratelimit.Rule{rule("r", 1)}},
		{"server stream by its request", serverStream, perField},
		{"bidi", bidi, []ratelimit.Rule{rule("r", 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLimiter(t, table(tt.rules, tt.method), answer(refused))
			srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)), grpc.StreamInterceptor(interceptor.StreamServer(l)))
			header, trailer := post(t, listen(t, srv, nil), tt.method)
			if header.Get("Grpc-Status") != "8" || len(trailer) != 0 {
				t.Errorf("first headers are %v and trailers %v, want everything in the first", header, trailer)
			}
			for key, want := range map[string]string{
				"Grpc-Retry-Pushback-Ms": "1500", "Ratelimit": `"r";r=0;t=2`, "Ratelimit-Policy": `"r";q=1;w=60`,
			} {
				if got := header.Get(key); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// post sends one empty message and returns the headers and trailers of the
// response.
func post(t *testing.T, addr, method string) (header, trailer http.Header) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+method, bytes.NewReader(make([]byte, 5)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, readErr := body.ReadFrom(response.Body)
	if err := errors.Join(readErr, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.Header, response.Trailer
}
