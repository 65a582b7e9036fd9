package interceptor_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// told is where a response told the quota: "header", "trailer" or "".
func told(t *testing.T, header, trailer metadata.MD) string {
	t.Helper()
	place := ""
	for name, md := range map[string]metadata.MD{"header": header, "trailer": trailer} {
		policy, quota := md.Get("ratelimit-policy"), md.Get("ratelimit")
		if policy == nil && quota == nil {
			continue
		}
		if place != "" || len(policy) != 1 || len(quota) != 1 {
			t.Errorf("quota in %s is %q, %q, and in %q: want one of each, in one place", name, policy, quota, place)
		}
		place = name
	}
	return place
}

func TestQuotaIsToldOnce(t *testing.T) {
	off := []interceptor.Option{interceptor.WithQuotaHeaders(false)}
	noTrailers := []interceptor.Option{interceptor.WithQuotaTrailers(false)}
	custom := metadata.Pairs("x-custom", "1")
	fails := status.Error(codes.NotFound, "not there")
	send := func(s grpc.ServerStream) error { return s.SendMsg(wrapperspb.String("x")) }
	plain := &echo{}
	for _, tt := range []struct {
		name    string
		verdict ratelimit.Verdict
		opts    []interceptor.Option
		echo    *echo
		want    string
	}{
		{"served", granted, nil, plain, "header"},
		{"served, trailers off", granted, noTrailers, plain, "header"},
		{"served, headers off", granted, off, plain, ""},
		{"refused", refused, nil, plain, "trailer"},
		{"refused, headers off", refused, off, plain, "trailer"},
		{"refused, trailers off", refused, noTrailers, plain, ""},
		{"handler fails", granted, nil, &echo{
			unary:  func(context.Context, *text) (*text, error) { return nil, fails },
			stream: func(grpc.ServerStream) error { return fails },
		}, "trailer"},
		{"handler fails after a response", granted, nil, &echo{
			unary: func(ctx context.Context, _ *text) (*text, error) { return nil, fails },
			stream: func(s grpc.ServerStream) error {
				if err := send(s); err != nil {
					return err
				}
				return fails
			},
		}, "header, unary: trailer"},
		{"handler sends the headers", granted, nil, &echo{
			unary:  func(ctx context.Context, m *text) (*text, error) { return m, grpc.SendHeader(ctx, custom) },
			stream: func(s grpc.ServerStream) error { return s.SendHeader(custom) },
		}, "header, unary: trailer"},
		{"handler sends the headers past the stream", granted, nil, &echo{
			unary: func(ctx context.Context, m *text) (*text, error) { return m, grpc.SendHeader(ctx, custom) },
			stream: func(s grpc.ServerStream) error {
				if err := grpc.SendHeader(s.Context(), custom); err != nil {
					return err
				}
				return send(s)
			},
		}, "trailer"},
		{"handler sets headers", granted, nil, &echo{
			unary: func(ctx context.Context, m *text) (*text, error) { return m, grpc.SetHeader(ctx, custom) },
			stream: func(s grpc.ServerStream) error {
				if err := s.SetHeader(custom); err != nil {
					return err
				}
				return send(s)
			},
		}, "header"},
		{"stream without a response", granted, nil, &echo{stream: func(grpc.ServerStream) error { return nil }}, "header"},
	} {
		for _, method := range allMethods {
			t.Run(tt.name+method, func(t *testing.T) {
				want := tt.want
				if want == "header, unary: trailer" {
					if want = "header"; method == unary {
						want = "trailer"
					}
				}
				l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10)}, method), answer(tt.verdict))
				conn := serve(t, l, tt.echo, tt.opts...)
				var header, trailer metadata.MD
				err := call(t.Context(), conn, method, "x", grpc.Header(&header), grpc.Trailer(&trailer))
				if code := status.Code(err); code != codes.OK && code != codes.ResourceExhausted && code != codes.NotFound {
					t.Fatal(err)
				}
				if got := told(t, header, trailer); got != want {
					t.Errorf("quota told in %q, want %q", got, want)
				}
			})
		}
	}
}

func TestQuotaValues(t *testing.T) {
	l := newLimiter(t, table([]ratelimit.Rule{rule("first", 10), rule("second", 5)}, unary), &counter{})
	conn := serve(t, l, nil)
	for i, want := range []string{`"second";r=4;t=60`, `"second";r=3;t=60`} {
		var header metadata.MD
		if err := call(t.Context(), conn, unary, "x", grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		if got := header.Get("ratelimit"); !slices.Equal(got, []string{want}) {
			t.Errorf("call %d: ratelimit is %q, want %q", i, got, want)
		}
		if got, want := header.Get("ratelimit-policy"), []string{`"first";q=10;w=60, "second";q=5;w=60`}; !slices.Equal(got, want) {
			t.Errorf("call %d: ratelimit-policy is %q, want %q", i, got, want)
		}
	}
}

func TestCallThatNobodyDecidedTellsNoQuota(t *testing.T) {
	for _, method := range allMethods {
		l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10)}, unary, bidi), fail(ratelimit.ErrUnavailable))
		conn := serve(t, l, nil)
		var header, trailer metadata.MD
		if err := call(t.Context(), conn, method, "x", grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		if got := told(t, header, trailer); got != "" {
			t.Errorf("%s: quota told in %q, want nowhere", method, got)
		}
	}
}
