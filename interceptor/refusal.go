package interceptor

import (
	"math"
	"strconv"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/protolimit/ratelimit"
)

// Domain is the domain of the google.rpc.ErrorInfo that the status of each call
// has that was refused or not decided. It tells them from other failures with
// the same code.
const Domain = "github.com/protolimit/ratelimit"

// reasonUnavailable is the ErrorInfo's reason of a call that was not decided.
const reasonUnavailable = "RATE_LIMITER_UNAVAILABLE"

// The metadata that tells the quota, and when to come back.
const (
	policyKey   = "ratelimit-policy"
	quotaKey    = "ratelimit"
	pushbackKey = "grpc-retry-pushback-ms"
)

// The statuses of calls that were not decided. They say nothing of the cause,
// which is the observer's.
var (
	errUnavailable = newError(codes.Unavailable, "the rate limiter is unavailable",
		newAny(errorInfoType, appendErrorInfo(nil, reasonUnavailable, nil)))
	errFailed = newError(codes.Internal, "the rate limiter failed")
)

func newError(code codes.Code, message string, details ...*anypb.Any) error {
	return status.ErrorProto(&spb.Status{Code: int32(code), Message: message, Details: details})
}

// refusal returns the status of a refused call.
func refusal(d *ratelimit.Decision) error {
	rule, verdict := &d.Rules[d.Binding], &d.Verdicts[d.Binding]
	// One buffer for the details: they are copied into the status.
	b := make([]byte, 0, 768)
	b = appendErrorInfo(b, verdict.Reason.String(), []string{"rule", rule.Name, "method", d.Method})
	details := append(make([]*anypb.Any, 0, 3), newAny(errorInfoType, b))
	if verdict.RetryAfter != ratelimit.Never {
		start := len(b)
		b = appendRetryInfo(b, verdict.RetryAfter)
		details = append(details, newAny(retryInfoType, b[start:]))
	}
	start := len(b)
	b = appendQuotaFailure(b, d)
	details = append(details, newAny(quotaFailureType, b[start:]))
	return newError(codes.ResourceExhausted, message(d), details...)
}

// message says for a person what was refused.
func message(d *ratelimit.Decision) string {
	rule := strconv.Quote(d.Rules[d.Binding].Name)
	if d.Verdicts[d.Binding].Reason == ratelimit.ReasonNever {
		return "rate limit exceeded: rule " + rule + " can never grant a cost of " + strconv.FormatInt(d.Cost(), 10)
	}
	return "rate limit exceeded: rule " + rule
}

// refusalTrailer returns the metadata that goes with a refusal.
func (s *server) refusalTrailer(d *ratelimit.Decision) metadata.MD {
	if !s.quotaTrailers {
		return metadata.MD{pushbackKey: {pushback(d.RetryAfter())}}
	}
	return metadata.MD{pushbackKey: {pushback(d.RetryAfter())}, policyKey: {d.Policy()}, quotaKey: {d.Quota()}}
}

// pushback returns a delay as gRPC's retry design (gRFC A6) writes it: whole
// milliseconds in a signed 32-bit number, here rounded up and at least 1; -1
// forbids a retry.
func pushback(wait time.Duration) string {
	if wait == ratelimit.Never {
		return "-1"
	}
	ms := int64(wait / time.Millisecond)
	if wait%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(min(max(ms, 1), math.MaxInt32), 10)
}
