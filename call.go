package ratelimit

import (
	"context"
	"net/netip"
)

// A Call is what an adapter knows of one call. The limiter reads of it only
// what the rules of its method need, and keeps none of it.
type Call struct {
	// Method is the full method name: "/package.Service/Method".
	Method string
	// Request is the request message, for rules that read fields; nil if it is
	// not known.
	Request any
	// Transport reads what came with the request; nil if nothing did.
	Transport Transport
}

// A Transport reads what came with a request. Adapters implement it with types
// that need no allocation to become an interface. It is safe for concurrent use
// if its Call is used so.
type Transport interface {
	// Peer returns the address of the other end of the call's connection. An
	// invalid Addr and true is a peer without an IP address, such as one on a
	// unix socket: all of these count as one. False is a peer that is not known,
	// a missing key part.
	Peer(ctx context.Context) (netip.Addr, bool)
	// Values returns all values of a request header in order, or nil. The name
	// is in lower case. The limiter does not change or keep the slice.
	Values(ctx context.Context, name string) []string
}
