package interceptor

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
)

// IsRefused tells whether err, or an error that it wraps, is the status of a
// call that a rule refused. Other failures with the code RESOURCE_EXHAUSTED,
// such as a message that is too large, are none; neither is a call that could
// not be decided.
func IsRefused(err error) bool {
	_, refused := refusalDetails(err)
	return refused
}

// RetryAfter returns how long the server asks the caller of a refused call to
// wait, above 0. It returns false if no wait will help, or if [IsRefused] is
// false.
func RetryAfter(err error) (time.Duration, bool) {
	details, _ := refusalDetails(err)
	for _, detail := range details {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			if wait := info.GetRetryDelay().AsDuration(); wait > 0 {
				return wait, true
			}
		}
	}
	return 0, false
}

// refusalDetails returns the details of a refusal's status.
func refusalDetails(err error) (details []any, refused bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted {
		return nil, false
	}
	details = s.Details()
	for _, detail := range details {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		switch info.GetReason() {
		case ratelimit.ReasonExceeded.String(), ratelimit.ReasonNever.String():
			return details, true
		}
	}
	return nil, false
}
