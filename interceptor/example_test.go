package interceptor_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/interceptor"
)

// limits stands for what protoc-gen-ratelimit generates: two calls an hour for
// each address.
func limits() ratelimit.Table {
	return ratelimit.Table{{
		Name: healthpb.Health_Check_FullMethodName,
		Rules: []ratelimit.Rule{{
			Name: "hourly",
			Rate: ratelimit.Rate{Count: 2, Window: time.Hour},
			Key:  []ratelimit.KeyPart{{Source: ratelimit.SourceIP}},
		}},
	}}
}

func Example() {
	backend, err := memory.New()
	if err != nil {
		panic(err)
	}
	limiter, err := ratelimit.New(limits(), backend)
	if err != nil {
		panic(err)
	}
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(interceptor.UnaryServer(limiter)),
		grpc.ChainStreamInterceptor(interceptor.StreamServer(limiter)),
	)
	healthpb.RegisterHealthServer(srv, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = srv.Serve(listener) }()
	defer srv.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	client := healthpb.NewHealthClient(conn)
	for range 3 {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err), interceptor.IsRefused(err))
		if wait, ok := interceptor.RetryAfter(err); ok {
			fmt.Println("in", wait.Round(time.Minute))
		}
	}
	// Output:
	// OK false
	// OK false
	// ResourceExhausted true
	// in 30m0s
}

// A client that waits as it is told, and gives up where no wait will help.
func ExampleRetryAfter() {
	charge := func(ctx context.Context) error { return nil } // a call of a generated client

	patiently := func(ctx context.Context) error {
		for {
			err := charge(ctx)
			wait, ok := interceptor.RetryAfter(err)
			if !ok {
				return err
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return err
			}
		}
	}
	fmt.Println(patiently(context.Background()))
	// Output: <nil>
}
