// Command quickstart runs the service of payments.proto, whose limits stand
// beside its methods, and a client that runs into them: it bursts, is refused,
// reads how long to wait, waits, and succeeds. Both are real: the calls go
// through a TCP port. With -serve it keeps the server running instead. With
// -fleet there are two servers that share their limits through a Redis, which is
// killed and started again in the end.
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
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	quickstartv1 "github.com/protolimit/ratelimit/examples/quickstart/gen/quickstart/v1"
	"github.com/protolimit/ratelimit/interceptor"
)

// options are the command's flags.
type options struct {
	addr      string
	serve     bool
	redis     string
	instances int
	fleet     bool
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:0", "`host:port` to listen on; port 0 takes a free one")
	flag.BoolVar(&o.serve, "serve", false, "keep the server running until interrupted, for grpcurl and other clients")
	flag.StringVar(&o.redis, "redis", "", "`URL` of a Redis to limit through, so that several servers share their limits; without it each limits by itself")
	flag.IntVar(&o.instances, "instances", 0, "how many servers share the Redis; 0 counts them through it")
	flag.BoolVar(&o.fleet, "fleet", false, "start a Redis and two servers, each a process of its own, and call them in turn")
	flag.Parse()
	run := runOne
	if o.fleet {
		run = runFleet
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// runOne starts the server, and calls it or waits for ctx.
func runOne(ctx context.Context, out io.Writer, o options) error {
	backend, err := newBackend(o)
	if err != nil {
		return err
	}
	defer func() { _ = backend.Close() }()
	server, err := newServer(backend)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if o.serve {
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

// newBackend returns what decides: this process, or the Redis of o for all its
// servers. While that is away each of them decides for its share of the limits.
func newBackend(o options) (ratelimit.Backend, error) {
	local, err := memory.New()
	if err != nil || o.redis == "" {
		return local, err
	}
	shared, err := goredis.Open(o.redis)
	if err != nil {
		return nil, err
	}
	if o.instances > 0 {
		return breaker.New(shared, local, breaker.WithInstances(o.instances))
	}
	return breaker.New(shared, local)
}

// newServer returns a server that enforces the limits of payments.proto.
func newServer(backend ratelimit.Backend) (*grpc.Server, error) {
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
