package interceptor_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/protolimit/ratelimit"
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

// BenchmarkUnaryServer is the interceptor alone, with a backend that costs
// nothing: the difference to backend/memory is that backend's.
func BenchmarkUnaryServer(b *testing.B) {
	byIP := []ratelimit.Rule{rule("burst", 10, part(ratelimit.SourceIP))}
	for _, bm := range []struct {
		name    string
		verdict ratelimit.Verdict
		opts    []interceptor.Option
	}{
		{"served/ip/headers=off", granted, []interceptor.Option{interceptor.WithQuotaHeaders(false)}},
		{"served/ip/headers=on", granted, nil},
		{"refused/ip", refused, nil},
	} {
		b.Run(bm.name, func(b *testing.B) {
			l := newLimiter(b, table(byIP, unary), answer(bm.verdict))
			intercept := interceptor.UnaryServer(l, bm.opts...)
			ctx := incoming(&transportStream{})
			b.ReportAllocs()
			for b.Loop() {
				_, _ = intercept(ctx, nil, unaryInfo, pass)
			}
		})
	}
}
