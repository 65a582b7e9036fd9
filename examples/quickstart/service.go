package main

import (
	"context"

	"google.golang.org/grpc/metadata"

	quickstartv1 "github.com/protolimit/ratelimit/examples/quickstart/gen/quickstart/v1"
)

// payments accepts everything: what is shown here is what happens before it.
type payments struct {
	quickstartv1.UnimplementedPaymentsServiceServer
}

func (payments) Charge(context.Context, *quickstartv1.ChargeRequest) (*quickstartv1.ChargeResponse, error) {
	return &quickstartv1.ChargeResponse{}, nil
}

func (payments) Refund(context.Context, *quickstartv1.RefundRequest) (*quickstartv1.RefundResponse, error) {
	return &quickstartv1.RefundResponse{}, nil
}

func (payments) Ping(context.Context, *quickstartv1.PingRequest) (*quickstartv1.PingResponse, error) {
	return &quickstartv1.PingResponse{}, nil
}

// user is the principal of a call. A real service reads it from what its
// authentication interceptor put into the context; this one believes a header.
func user(ctx context.Context) (string, bool) {
	if names := metadata.ValueFromIncomingContext(ctx, "x-user"); len(names) > 0 {
		return names[0], true
	}
	return "", false
}
