package interceptor_test

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// serveHTTP serves the test service through net/http, and returns its target.
func serveHTTP(t *testing.T, l *ratelimit.Limiter) string {
	t.Helper()
	srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)))
	srv.RegisterService(&echoService, &echo{})
	t.Cleanup(srv.Stop)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: srv, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	web.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error, 1)
	go func() { done <- web.Serve(listener) }()
	t.Cleanup(func() {
		_ = web.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "passthrough:///" + listener.Addr().String()
}

// Under net/http the peer's address is a text.
func TestServeHTTPCountsByAddress(t *testing.T) {
	target := serveHTTP(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 2, part(ratelimit.SourceIP))}, unary), &counter{}))
	var trailer metadata.MD
	for i := range 3 {
		err := call(t.Context(), dial(t, target), unary, "x", grpc.Trailer(&trailer))
		if isRefused := interceptor.IsRefused(err); isRefused != (i == 2) || !isRefused && err != nil {
			t.Errorf("call %d: %v, want the third refused", i, err)
		}
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "1500" {
		t.Errorf("trailer grpc-retry-pushback-ms is %q, want 1500", got)
	}
}

// What the package's documentation says of grpc.Server.ServeHTTP: it begins
// every response with headers.
func TestServeHTTPRefusalsAreNotRetried(t *testing.T) {
	var calls atomic.Int64
	target := serveHTTP(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, unary), refuseFirst(1, time.Millisecond, &calls)))
	err := call(t.Context(), dial(t, target, grpc.WithDefaultServiceConfig(retryPolicy)), unary, "x")
	if !interceptor.IsRefused(err) || calls.Load() != 1 {
		t.Errorf("call ended with %v after %d attempts, want it refused after 1: the documentation says so", err, calls.Load())
	}
}
