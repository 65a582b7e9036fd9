package inprocess

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/interceptor"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

const (
	nameMiddleware = "go-grpc-middleware"
	method         = "/acme.pay.v1.Payments/Charge"
)

var interceptorMetrics = []harness.Metric{{Name: oneCaller, Unit: "ns"}, {Name: twoCallers, Unit: "ns"}, {Name: allocations}}

// served is a call through the interceptor that is let through.
func served() *harness.Experiment {
	return &harness.Experiment{
		Name: "served", Section: Section, Metrics: interceptorMetrics, Slices: hotSlices,
		Rows: []harness.Row{
			{Label: "interceptor, key ip, no quota headers, 1 goroutine", Metric: oneCaller, Of: nameOurs, Against: nameMiddleware, Budget: harness.AtMost(0.6)},
			{Label: "interceptor, key ip, no quota headers, 2 goroutines", Metric: twoCallers, Of: nameOurs, Against: nameMiddleware},
			{Label: "interceptor, key ip, no quota headers, allocations", Metric: allocations, Of: nameOurs, Budget: harness.AtMost(0)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) { return openInterceptors(hotLimit, o.Hot) },
	}
}

// refused is a call through the interceptor that is refused. What others send
// then is a code and a sentence.
func refused() *harness.Experiment {
	const limit = 3000
	return &harness.Experiment{
		Name: "refusal", Section: Section, Metrics: interceptorMetrics, Slices: hotSlices,
		Rows: []harness.Row{
			{Label: "interceptor, a refusal with all details", Metric: oneCaller, Of: nameOurs, Budget: harness.AtMost(limit)},
			{Label: "interceptor, a refusal with all details, allocations", Metric: allocations, Of: nameOurs},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) { return openInterceptors(refusing, o.Hot) },
	}
}

// openInterceptors returns ours and the interceptor that is most used.
func openInterceptors(l limit, slice harness.Slice) ([]harness.Contender, func(), error) {
	backend, err := memory.New()
	if err != nil {
		return nil, nil, err
	}
	rule := l.rule()
	rule.Name, rule.Key = "burst", []ratelimit.KeyPart{{Source: ratelimit.SourceIP}}
	limiter, err := ratelimit.New(ratelimit.Table{{Name: method, Rules: []ratelimit.Rule{rule}}}, backend)
	if err != nil {
		return nil, nil, err
	}
	// Refusals take the default, which sends the quota too.
	ours := interceptor.UnaryServer(limiter, interceptor.WithQuotaHeaders(!l.granted))
	return []harness.Contender{
		callInterceptor(nameOurs, ours, l.granted, slice),
		callInterceptor(nameMiddleware, rivals.NewMiddleware(l.rival()), l.granted, slice),
	}, func() { _ = backend.Close() }, nil
}

// callInterceptor calls an interceptor as a server would, without a server.
func callInterceptor(name string, intercept grpc.UnaryServerInterceptor, granted bool, slice harness.Slice) harness.Contender {
	worker := func() harness.Batch {
		ctx, info := incoming(), &grpc.UnaryServerInfo{FullMethod: method}
		return func(n int) error {
			for range n {
				if _, err := intercept(ctx, nil, info, handle); granted != (err == nil) {
					return errors.Join(errUnexpected, err)
				}
			}
			return nil
		}
	}
	one, two, three := worker(), worker(), worker()
	return harness.Contender{Name: name, Sample: func() ([]float64, error) {
		if !granted {
			if err := exhaust(intercept); err != nil {
				return nil, err
			}
		}
		alone, objects, err := harness.Time(slice, one)
		if err != nil {
			return nil, err
		}
		together, _, err := harness.Time(slice, two, three)
		return []float64{alone, together, objects}, err
	}}
}

// exhaust takes what a limit of one grants.
func exhaust(intercept grpc.UnaryServerInterceptor) error {
	_, err := intercept(incoming(), nil, &grpc.UnaryServerInfo{FullMethod: method}, handle)
	if err != nil && status.Code(err) != codes.ResourceExhausted {
		return err
	}
	return nil
}

func handle(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // a handler that costs nothing

// incoming is the context of a call from a TCP peer.
func incoming() context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})
	return grpc.NewContextWithServerTransportStream(ctx, sink{})
}

// A sink is a transport that drops metadata.
type sink struct{}

func (sink) Method() string               { return method }
func (sink) SetHeader(metadata.MD) error  { return nil }
func (sink) SendHeader(metadata.MD) error { return nil }
func (sink) SetTrailer(metadata.MD) error { return nil }
