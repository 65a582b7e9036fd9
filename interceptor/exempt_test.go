package interceptor_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// serveWithHealth is serve with gRPC's health and reflection services.
func serveWithHealth(t *testing.T, l *ratelimit.Limiter) *grpc.ClientConn {
	t.Helper()
	srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)), grpc.StreamInterceptor(interceptor.StreamServer(l)))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	reflection.Register(srv)
	return start(t, srv, nil)
}

func TestHealthAndReflectionAreNotLimited(t *testing.T) {
	backend := &counter{}
	conn := serveWithHealth(t, newLimiter(t, nil, backend, ratelimit.WithDefaultRules(rule("default", 1))))
	if err := call(t.Context(), conn, unary, "x"); err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), conn, bidi, "x"); !interceptor.IsRefused(err) {
		t.Fatalf("second call of the default's bucket: %v, want it refused", err)
	}

	client := healthpb.NewHealthClient(conn)
	for i := range 20 {
		if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("Check %d: %v, want it served", i, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("Watch: %v, %v, want SERVING", got, err)
	}

	services := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	v1, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := v1.Send(services); err != nil {
		t.Fatal(err)
	}
	if _, err := v1.Recv(); err != nil {
		t.Errorf("reflection v1: %v, want it served", err)
	}
	alpha, err := reflectionalphapb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // Deprecated, and what older tools still ask.
	alphaServices := &reflectionalphapb.ServerReflectionRequest{MessageRequest: &reflectionalphapb.ServerReflectionRequest_ListServices{}}
	if err := alpha.Send(alphaServices); err != nil {
		t.Fatal(err)
	}
	if _, err := alpha.Recv(); err != nil {
		t.Errorf("reflection v1alpha: %v, want it served", err)
	}
	if n := backend.total(); n != 1 {
		t.Errorf("charged %d units, want 1 for the first call", n)
	}
}

func TestHealthIsLimitedByRulesThatNameIt(t *testing.T) {
	tab := table([]ratelimit.Rule{rule("probe", 1)}, healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName)
	client := healthpb.NewHealthClient(serveWithHealth(t, newLimiter(t, tab, &counter{})))
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("first Check: %v, want it served", err)
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); !interceptor.IsRefused(err) {
		t.Errorf("second Check: %v, want it refused", err)
	}
	for i := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if interceptor.IsRefused(err) != (i == 1) || i == 0 && err != nil {
			t.Errorf("Watch %d: %v, want the second refused", i, err)
		}
		cancel()
	}
}

// A server for any method, as proxies have, is limited by the default rules,
// whatever names its callers send.
func TestUnknownMethods(t *testing.T) {
	l := newLimiter(t, nil, &counter{}, ratelimit.WithDefaultRules(rule("default", 2)))
	srv := grpc.NewServer(grpc.StreamInterceptor(interceptor.StreamServer(l)),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return s.SendMsg(new(text)) }))
	conn := start(t, srv, nil)
	for i, method := range []string{"/a.S/M", "/b.S/M", "/c.S/M", "/d/\xff", "/e/f/g"} {
		err := call(t.Context(), conn, method, "x")
		if interceptor.IsRefused(err) != (i >= 2) || i < 2 && err != nil {
			t.Errorf("call %d of %q: %v, want two served and the others refused", i, method, err)
		}
	}
}
