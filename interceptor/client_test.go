package interceptor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// errorInfo returns the reason and the domain of a status.
func errorInfo(err error) (reason, domain string) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason(), info.GetDomain()
		}
	}
	return "", ""
}

func TestIsRefusedAndRetryAfter(t *testing.T) {
	with := func(code codes.Code, details ...protoadapt.MessageV1) error {
		s, err := status.New(code, "message").WithDetails(details...)
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	info := func(domain, reason string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Domain: domain, Reason: reason}
	}
	exceeded := info(interceptor.Domain, "RATE_LIMIT_EXCEEDED")
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}
	ours := with(codes.ResourceExhausted, exceeded, retry)
	for _, tt := range []struct {
		name    string
		err     error
		refused bool
		wait    time.Duration // 0 for none
	}{
		{"nil", nil, false, 0},
		{"no status", errors.New("x"), false, 0},
		{"refusal", ours, true, time.Second},
		{"wrapped", fmt.Errorf("charge: %w", ours), true, time.Second},
		{"joined", errors.Join(errors.New("x"), ours), true, time.Second},
		{"other order", with(codes.ResourceExhausted, retry, exceeded), true, time.Second},
		{"cost above limit", with(codes.ResourceExhausted, info(interceptor.Domain, "COST_ABOVE_LIMIT")), true, 0},
		{"delay of 0", with(codes.ResourceExhausted, exceeded, &errdetails.RetryInfo{}), true, 0},
		{"delay below 0", with(codes.ResourceExhausted, exceeded, &errdetails.RetryInfo{RetryDelay: durationpb.New(-1)}), true, 0},
		{"no details", status.Error(codes.ResourceExhausted, "message too large"), false, 0},
		{"another domain", with(codes.ResourceExhausted, info("example.com", "RATE_LIMIT_EXCEEDED"), retry), false, 0},
		{"another reason", with(codes.ResourceExhausted, info(interceptor.Domain, "OTHER"), retry), false, 0},
		{"another code", with(codes.Unavailable, exceeded, retry), false, 0},
		{"two infos", with(codes.ResourceExhausted, info("example.com", "X"), exceeded), true, 0},
	} {
		if got := interceptor.IsRefused(tt.err); got != tt.refused {
			t.Errorf("%s: IsRefused = %v, want %v", tt.name, got, tt.refused)
		}
		if wait, ok := interceptor.RetryAfter(tt.err); wait != tt.wait || ok != (tt.wait != 0) {
			t.Errorf("%s: RetryAfter = %v, %v, want %v, %v", tt.name, wait, ok, tt.wait, tt.wait != 0)
		}
	}
}

func TestOversizedMessageIsNoRefusal(t *testing.T) {
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10)}, unary, bidi), &counter{})
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(100), grpc.UnaryInterceptor(interceptor.UnaryServer(l)), grpc.StreamInterceptor(interceptor.StreamServer(l)))
	conn := start(t, srv, nil)
	for _, method := range []string{unary, bidi} {
		err := call(t.Context(), conn, method, strings.Repeat("x", 200))
		_, hasWait := interceptor.RetryAfter(err)
		if status.Code(err) != codes.ResourceExhausted || interceptor.IsRefused(err) || hasWait {
			t.Errorf("%s: ended with %v, IsRefused %v, RetryAfter %v, want RESOURCE_EXHAUSTED, false, false", method, err, interceptor.IsRefused(err), hasWait)
		}
	}
}
