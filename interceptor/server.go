// Package interceptor enforces rate limits on gRPC servers, and tells clients
// that were refused from others that failed.
//
// # Refused calls
//
// A refused call ends with RESOURCE_EXHAUSTED before its handler runs. Its
// status has these details: a google.rpc.ErrorInfo with [Domain], the reason
// RATE_LIMIT_EXCEEDED or COST_ABOVE_LIMIT, and the method and the rule that
// binds; a google.rpc.RetryInfo with the delay, absent if no wait will help; and
// a google.rpc.QuotaFailure with each rule that refuses. Its trailers hold
// grpc-retry-pushback-ms, which clients with a retry policy for
// RESOURCE_EXHAUSTED obey, and the quota.
//
// No header comes with it: a response with headers is one that clients do not
// retry, whatever the trailers say. An interceptor further out that sets a
// header before it calls the next has the same effect, and so has
// [grpc.Server.ServeHTTP], which begins every response with headers.
//
// A call that could not be decided although a rule says DENY ends with
// UNAVAILABLE and the reason RATE_LIMITER_UNAVAILABLE; one whose key function
// panicked with INTERNAL.
//
// # Quota
//
// The keys ratelimit-policy and ratelimit hold what the fields of
// draft-ietf-httpapi-ratelimit-headers-11 hold in HTTP. They are in the headers
// of calls that succeed, and in the trailers of calls that fail: headers that
// were set before the handler ran would keep clients from retrying when it
// fails. A handler that calls [grpc.SendHeader] has them in the trailers too.
//
// # Order
//
// Interceptors before this one see refusals; those after it do not run. Rules
// keyed by principal want it after authentication, rules that guard
// authentication want a second one, of another limiter, before.
package interceptor

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
)

// UnaryServer returns an interceptor that charges each unary call and gives the
// charge back if the handler ends with a code of the method's refund_on; a handler
// that panics ends with INTERNAL. It panics if limiter or an option is nil: a
// server without its limiter must not come up.
func UnaryServer(limiter *ratelimit.Limiter, opts ...Option) grpc.UnaryServerInterceptor {
	s := newServer("UnaryServer", limiter, opts)
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		d, trailer, err := s.decide(ctx, info.FullMethod, request)
		if err != nil {
			// It fails where there is no transport, and nobody to tell.
			_ = grpc.SetTrailer(ctx, trailer)
			return nil, err
		}
		ended := ratelimit.Code(codes.Internal) // for a handler that panics
		// What could not be given back stays charged.
		defer func() { d.Done(ctx, ended) }()
		response, err := handler(ctx, request)
		ended = codeOf(err)
		// Only now is it known whether the response has headers: had they been
		// set before, clients would not retry a handler's failure.
		if quota := s.quota(d); quota != nil && (err != nil || grpc.SetHeader(ctx, quota) != nil) {
			_ = grpc.SetTrailer(ctx, quota)
		}
		return response, err
	}
}

// StreamServer returns an interceptor that charges each stream once, when it
// opens, whatever its messages, and gives nothing back. It panics if limiter is
// nil, as [UnaryServer] does.
//
// Where a method has one request message and its rules read that, the stream is
// charged when the message has arrived. Interceptors further in have then run,
// and a header that one of them has set keeps clients from retrying a refusal.
func StreamServer(limiter *ratelimit.Limiter, opts ...Option) grpc.StreamServerInterceptor {
	s := newServer("StreamServer", limiter, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if !info.IsClientStream && limiter.ReadsRequest(info.FullMethod) {
			return (&serverStream{ServerStream: stream, server: s, method: info.FullMethod}).serve(srv, handler)
		}
		quota, err := s.open(stream, info.FullMethod, nil)
		if err != nil {
			return err
		}
		if quota == nil {
			return handler(srv, stream)
		}
		return (&serverStream{ServerStream: stream, quota: quota}).serve(srv, handler)
	}
}

// A server is what both interceptors share.
type server struct {
	config
	limiter *ratelimit.Limiter
}

func newServer(name string, limiter *ratelimit.Limiter, opts []Option) *server {
	if limiter == nil {
		panic("interceptor: " + name + ": limiter is nil, want one from ratelimit.New")
	}
	s := &server{config{quotaHeaders: true, quotaTrailers: true}, limiter}
	for _, o := range opts {
		if o == nil {
			panic("interceptor: " + name + ": an option is nil, want one of the With functions")
		}
		o.apply(&s.config)
	}
	return s
}

// decide decides a call. A call that is to be served has a nil error and a
// decision that the caller ends; else the error is the call's status, trailer
// what goes with it, and the decision is over.
func (s *server) decide(ctx context.Context, method string, request any) (d *ratelimit.Decision, trailer metadata.MD, err error) {
	d = s.limiter.Decide(ctx, &ratelimit.Call{Method: method, Request: request, Transport: transport{}})
	switch d.Outcome {
	case ratelimit.OutcomeAllowed, ratelimit.OutcomeUnlimited:
		return d, nil, nil
	case ratelimit.OutcomeRefused:
		trailer, err = s.refusalTrailer(ctx, d), refusal(d)
	case ratelimit.OutcomeUnavailable:
		err = errUnavailable
	case ratelimit.OutcomeCanceled:
		err = status.FromContextError(ctx.Err()).Err()
	default:
		err = errFailed
	}
	d.Done(ctx, ratelimit.Code(status.Code(err)))
	return nil, trailer, err
}

// quota returns the metadata that tells the quota of a served call, or nil if
// there is nothing to tell.
func (s *server) quota(d *ratelimit.Decision) metadata.MD {
	if !s.quotaHeaders || len(d.Verdicts) == 0 {
		return nil
	}
	return metadata.MD{policyKey: {d.Policy()}, quotaKey: {d.Quota()}}
}

// codeOf returns the code that the client sees of a handler's error: grpc
// recognizes a context's error where there is no status.
func codeOf(err error) ratelimit.Code {
	if err == nil {
		return ratelimit.Code(codes.OK)
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return ratelimit.Code(s.Code())
}
