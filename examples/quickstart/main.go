// Command quickstart runs the service of payments.proto, whose limits stand
// beside its methods, and a client that runs into them: it bursts, is refused,
// reads how long to wait, waits, and succeeds. Both are real: the calls go
// through a TCP port. With -serve it keeps the server running instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	quickstartv1 "github.com/protolimit/ratelimit/examples/quickstart/gen/quickstart/v1"
	"github.com/protolimit/ratelimit/interceptor"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "`host:port` to listen on; port 0 takes a free one")
	serve := flag.Bool("serve", false, "keep the server running until interrupted, for grpcurl and other clients")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *addr, *serve); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run starts the server, and calls it or waits for ctx.
func run(ctx context.Context, out io.Writer, addr string, serve bool) error {
	server, err := newServer()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if serve {
		fmt.Fprintf(out, usage, listener.Addr())
		<-ctx.Done()
	} else {
		err = runClient(ctx, out, listener.Addr().String())
	}
	server.GracefulStop()
	if serveErr := <-served; err == nil {
		err = serveErr
	}
	return err
}

const usage = `Serving on %[1]s. Call it more than 5 times in a row:

  grpcurl -plaintext -H 'x-user: alice' -d '{"merchant_id": "books", "items": ["atlas"]}' \
    %[1]s quickstart.v1.PaymentsService/Charge

Ctrl-C ends it.
`

// newServer returns a server that enforces the limits of payments.proto.
func newServer() (*grpc.Server, error) {
	backend, err := memory.New()
	if err != nil {
		return nil, err
	}
	limiter, err := ratelimit.New(quickstartv1.PaymentsServiceLimits(), backend, ratelimit.WithPrincipal(user))
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(interceptor.UnaryServer(limiter)),
		grpc.ChainStreamInterceptor(interceptor.StreamServer(limiter)),
	)
	quickstartv1.RegisterPaymentsServiceServer(server, payments{})
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server, nil
}
