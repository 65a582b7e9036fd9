package rivals

import (
	"context"
	"errors"
	"net"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// NewMiddleware returns go-grpc-middleware's interceptor around the limiter that
// its users write: a map of golang.org/x/time/rate by the peer's host.
func NewMiddleware(l Limit) grpc.UnaryServerInterceptor {
	limiter, _ := newTimeRate(l)
	return ratelimit.UnaryServerInterceptor(byPeer{limiter})
}

// MiddlewareModule is the path of the interceptor's module.
const MiddlewareModule = "github.com/grpc-ecosystem/go-grpc-middleware/v2"

type byPeer struct{ limiter Limiter }

var errExceeded = errors.New("too many requests")

// Limit refuses by an error.
func (b byPeer) Limit(ctx context.Context) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return errors.New("no peer")
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return err
	}
	if !b.limiter.Take(host) {
		return errExceeded
	}
	return nil
}
