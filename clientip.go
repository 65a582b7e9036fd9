package ratelimit

import (
	"context"
	"net/netip"
	"slices"
	"strings"
)

// clientAddr returns the address that a call counts by: valid and without zone,
// IPv4 in its own form; or invalid for a peer without one; or false if it is
// not known.
func (l *Limiter) clientAddr(ctx context.Context, call *Call) (netip.Addr, bool) {
	if l.clientIP != nil {
		if addr, ok := l.clientIP(ctx); ok && addr.IsValid() {
			return addr.Unmap().WithZone(""), true
		}
	}
	if call.Transport == nil {
		return netip.Addr{}, false
	}
	peer, ok := call.Transport.Peer(ctx)
	if !ok || !peer.IsValid() {
		return netip.Addr{}, ok
	}
	peer = peer.Unmap().WithZone("")
	if len(l.proxies) > 0 && l.trusted(peer) {
		return l.forwardedFor(peer, call.Transport.Values(ctx, "x-forwarded-for")), true
	}
	return peer, true
}

// forwardedFor walks the x-forwarded-for header from the right: each address
// was written by the one before it in the walk, which is believed as long as it
// is one of our proxies.
func (l *Limiter) forwardedFor(peer netip.Addr, values []string) netip.Addr {
	last := peer
	for _, value := range slices.Backward(values) {
		for rest := value; rest != ""; {
			hop := rest
			if cut := strings.LastIndexByte(rest, ','); cut >= 0 {
				hop, rest = rest[cut+1:], rest[:cut]
			} else {
				rest = ""
			}
			addr, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return last
			}
			if last = addr; !l.trusted(addr) {
				return addr
			}
		}
	}
	return last
}

// parseHop reads an address with or without a port, IPv6 with or without
// brackets.
func parseHop(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

func (l *Limiter) trusted(addr netip.Addr) bool {
	for _, network := range l.proxies {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}
