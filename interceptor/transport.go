package interceptor

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// transport is the [ratelimit.Transport] of gRPC: everything is in the context.
// It has no size, so that it becomes an interface without an allocation.
type transport struct{}

// Peer returns the address of the connection's other end.
func (transport) Peer(ctx context.Context) (netip.Addr, bool) {
	p, _ := peer.FromContext(ctx)
	if p == nil || p.Addr == nil {
		return netip.Addr{}, false
	}
	switch addr := p.Addr.(type) {
	case *net.TCPAddr: // without its zone, which the limiter does not count
		ip, _ := netip.AddrFromSlice(addr.IP)
		return ip, true
	case *net.UnixAddr: // whose name is the caller's choice, even if it reads like an address
		return netip.Addr{}, true
	default:
		return parsePeer(addr.String())
	}
}

// parsePeer reads what other kinds of addresses say of themselves: under
// [grpc.Server.ServeHTTP] it is net/http's RemoteAddr, which is empty if not
// known. A text that is no IP address is that of an in-process connection.
func parsePeer(text string) (addr netip.Addr, known bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr(), true
	}
	addr, _ = netip.ParseAddr(text)
	return addr, text != ""
}

// Values returns the values of a key of the incoming metadata. Those of keys
// that end in "-bin" are decoded.
func (transport) Values(ctx context.Context, name string) []string {
	return metadata.ValueFromIncomingContext(ctx, name)
}
