package interceptor_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

func TestEveryKindOfCallIsCharged(t *testing.T) {
	for _, method := range []string{unary, clientStream, serverStream, bidi} {
		t.Run(method, func(t *testing.T) {
			backend := &counter{}
			l := newLimiter(t, table([]ratelimit.Rule{rule("burst", 2)}, method), backend)
			conn := serve(t, l, nil)
			for i := range 4 {
				err := call(t.Context(), conn, method, "x")
				if refused := interceptor.IsRefused(err); refused != (i >= 2) || !refused && err != nil {
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
	if err := call(t.Context(), conn, unary, "x"); status.Code(err) != codes.ResourceExhausted {
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
