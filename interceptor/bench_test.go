package interceptor_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/interceptor"
)

// transportStream joins metadata as grpc's own does, and drops it.
type transportStream struct{ header, trailer metadata.MD }

func (*transportStream) Method() string { return unary }

func (s *transportStream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(nil, md)
	return nil
}

func (s *transportStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

func (s *transportStream) SetTrailer(md metadata.MD) error {
	s.trailer = metadata.Join(nil, md)
	return nil
}

// incoming is the context of a call from a TCP peer.
func incoming(stream grpc.ServerTransportStream) context.Context {
	addr := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: addr})
	return grpc.NewContextWithServerTransportStream(ctx, stream)
}

func pass(context.Context, any) (any, error) { return nil, nil }

var unaryInfo = &grpc.UnaryServerInfo{FullMethod: unary}

// BenchmarkUnaryServer is the interceptor alone, with the decision of the backend
// in the process but without a connection, for one client.
func BenchmarkUnaryServer(b *testing.B) {
	fast := ratelimit.Rule{Name: "burst", Rate: ratelimit.Rate{Count: ratelimit.MaxPerSecond, Window: time.Second}}
	slow := ratelimit.Rule{Name: "burst", Rate: ratelimit.Rate{Count: 1, Window: ratelimit.MaxWindow}}
	fast.Key = []ratelimit.KeyPart{part(ratelimit.SourceIP)}
	slow.Key = fast.Key
	for _, bm := range []struct {
		name string
		rule ratelimit.Rule
		opts []interceptor.Option
	}{
		{"served/ip/headers=off", fast, []interceptor.Option{interceptor.WithQuotaHeaders(false)}},
		{"served/ip/headers=on", fast, nil},
		{"refused/ip", slow, nil},
	} {
		b.Run(bm.name, func(b *testing.B) {
			backend, err := memory.New()
			if err != nil {
				b.Fatal(err)
			}
			intercept := interceptor.UnaryServer(newLimiter(b, table([]ratelimit.Rule{bm.rule}, unary), backend), bm.opts...)
			ctx := incoming(&transportStream{})
			b.ReportAllocs()
			for b.Loop() {
				_, _ = intercept(ctx, nil, unaryInfo, pass)
			}
		})
	}
}
