package interceptor_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// The test service echoes text, one method for each kind of call.
const (
	unary        = "/test.v1.Echo/Unary"
	clientStream = "/test.v1.Echo/ClientStream"
	serverStream = "/test.v1.Echo/ServerStream"
	bidi         = "/test.v1.Echo/Bidi"
)

var allMethods = []string{unary, clientStream, serverStream, bidi}

// echo is what the methods of the test service do; nil echoes.
type echo struct {
	unary  func(ctx context.Context, request *text) (*text, error)
	stream func(stream grpc.ServerStream) error
}

type text = wrapperspb.StringValue

var echoService = grpc.ServiceDesc{
	ServiceName: "test.v1.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, decode func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
		request := new(text)
		if err := decode(request); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, request any) (any, error) {
			if e := srv.(*echo); e.unary != nil {
				return e.unary(ctx, request.(*text))
			}
			return request, nil
		}
		if chain == nil {
			return handler(ctx, request)
		}
		return chain(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: unary}, handler)
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "ClientStream", ClientStreams: true, Handler: echoStream},
		{StreamName: "ServerStream", ServerStreams: true, Handler: echoStream},
		{StreamName: "Bidi", ClientStreams: true, ServerStreams: true, Handler: echoStream},
	},
}

// echoStream sends the last message back when the client has sent all.
func echoStream(srv any, stream grpc.ServerStream) error {
	if e := srv.(*echo); e.stream != nil {
		return e.stream(stream)
	}
	var last *text
	for {
		m := new(text)
		err := stream.RecvMsg(m)
		switch {
		case err == nil:
			last = m
		case !errors.Is(err, io.EOF):
			return err
		case last == nil:
			return nil
		default:
			return stream.SendMsg(last)
		}
	}
}

// serve starts a server of the test service with the limiter's interceptors,
// and returns a connection to it over loopback TCP.
func serve(t testing.TB, l *ratelimit.Limiter, e *echo, opts ...interceptor.Option) *grpc.ClientConn {
	t.Helper()
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(interceptor.UnaryServer(l, opts...)),
		grpc.ChainStreamInterceptor(interceptor.StreamServer(l, opts...)),
	)
	return start(t, srv, e)
}

func start(t testing.TB, srv *grpc.Server, e *echo) *grpc.ClientConn {
	t.Helper()
	return dial(t, "passthrough:///"+listen(t, srv, e))
}

// listen registers the test service, starts the server and returns its address.
func listen(t testing.TB, srv *grpc.Server, e *echo) string {
	t.Helper()
	if e == nil {
		e = &echo{}
	}
	srv.RegisterService(&echoService, e)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { srv.Stop(); <-done })
	return listener.Addr().String()
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes a call of any kind with one request message.
func call(ctx context.Context, conn *grpc.ClientConn, method, message string, opts ...grpc.CallOption) error {
	if method == unary {
		return conn.Invoke(ctx, method, wrapperspb.String(message), new(text), opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, opts...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(wrapperspb.String(message)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(new(text)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// newLimiter returns a limiter without log.
func newLimiter(t testing.TB, table ratelimit.Table, backend ratelimit.Backend, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(table, backend, append([]ratelimit.Option{ratelimit.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// table gives the same rules to methods.
func table(rules []ratelimit.Rule, methods ...string) ratelimit.Table {
	var t ratelimit.Table
	for _, name := range methods {
		t = append(t, ratelimit.Method{Name: name, Rules: rules})
	}
	return t
}

// rule allows count calls a minute for each key.
func rule(name string, count int64, key ...ratelimit.KeyPart) ratelimit.Rule {
	return ratelimit.Rule{Name: name, Rate: ratelimit.Rate{Count: count, Window: time.Minute}, Key: key}
}

func part(source ratelimit.Source, name ...string) ratelimit.KeyPart {
	p := ratelimit.KeyPart{Source: source}
	if len(name) > 0 {
		p.Name = name[0]
	}
	return p
}

// textField is the key part that reads the test service's only field.
var textField = ratelimit.KeyPart{
	Source: ratelimit.SourceField, Name: "value", Class: ratelimit.ClassText,
	Field: func(dst []byte, request any) ([]byte, bool) {
		m, ok := request.(*text)
		if !ok || m == nil {
			return dst, false
		}
		return append(dst, m.GetValue()...), true
	},
}

// counter is a backend that never refills. A refused charge is to wait for a
// second and a half.
type counter struct {
	mu   sync.Mutex
	used map[string]int64
}

const counterWait = 1500 * time.Millisecond

func (c *counter) Take(_ context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[string]int64{}
	}
	pass := true
	for i, charge := range charges {
		left := charge.Limit.Most() - c.used[id(charge.Limit, charge.Key)]
		verdicts[i] = ratelimit.Verdict{Allowed: true, Remaining: left, ResetAfter: time.Minute}
		if charge.Cost > left {
			pass = false
			verdicts[i] = ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, Remaining: left, RetryAfter: counterWait, ResetAfter: time.Minute}
		}
		if charge.Cost > charge.Limit.Most() {
			verdicts[i].Reason, verdicts[i].RetryAfter = ratelimit.ReasonNever, ratelimit.Never
		}
	}
	if !pass {
		return nil
	}
	for i, charge := range charges {
		c.used[id(charge.Limit, charge.Key)] += charge.Cost
		verdicts[i].Remaining -= charge.Cost
	}
	return nil
}

func (c *counter) Adjust(_ context.Context, deltas []ratelimit.Delta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range deltas {
		c.used[id(d.Limit, d.Key)] += d.Units
	}
	return nil
}

func (*counter) Close() error { return nil }

func (*counter) HasFallback() bool { return true }

// total is what was charged over all buckets.
func (c *counter) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for _, used := range c.used {
		n += used
	}
	return n
}

func (c *counter) buckets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.used)
}

func id(limit *ratelimit.Limit, key []byte) string { return limit.Bucket() + "\x00" + string(key) }

// backendFunc is a backend of one function, which has no fallback.
type backendFunc func(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error

func (f backendFunc) Take(ctx context.Context, charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	return f(ctx, charges, verdicts)
}

func (backendFunc) Adjust(context.Context, []ratelimit.Delta) error { return nil }

func (backendFunc) Close() error { return nil }

// Verdicts for a backend to give.
var (
	granted = ratelimit.Verdict{Allowed: true, Remaining: 7, ResetAfter: time.Second}
	refused = ratelimit.Verdict{Reason: ratelimit.ReasonExceeded, RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute}
)

// answer is a backend that gives the same verdict to every charge.
func answer(v ratelimit.Verdict) backendFunc {
	return func(_ context.Context, _ []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
		for i := range verdicts {
			verdicts[i] = v
		}
		return nil
	}
}

// A log is an observer that keeps outcomes.
type log struct {
	mu       sync.Mutex
	outcomes []ratelimit.Outcome
	errs     []error
	missing  int
}

func (o *log) saw(_ context.Context, d *ratelimit.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes, o.errs = append(o.outcomes, d.Outcome), append(o.errs, d.Err)
	for i := range d.Rules {
		if d.Missing(i) {
			o.missing++
		}
	}
}

func (o *log) last() (ratelimit.Outcome, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.outcomes) == 0 {
		return 0, nil
	}
	return o.outcomes[len(o.outcomes)-1], o.errs[len(o.errs)-1]
}

// observe has f see decisions.
func observe(f func(ctx context.Context, d *ratelimit.Decision)) ratelimit.Option {
	return ratelimit.WithObserver(ratelimit.Observer{Decision: f})
}
