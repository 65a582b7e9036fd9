package ratelimit

import (
	"context"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	proxies := WithTrustedProxies(prefix("10.0.0.0/8"), prefix("2001:db8:ff::/48"))
	for _, c := range []struct {
		name string
		opts []Option
		peer string
		xff  []string
		want string
	}{
		{"no list: header is not looked at", nil, "10.0.0.1", []string{"203.0.113.9"}, "10.0.0.1"},
		{"first address from the right that is no proxy", []Option{proxies}, "10.0.0.1", []string{"203.0.113.9, 198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		{"peer is no proxy", []Option{proxies}, "192.0.2.5", []string{"198.51.100.7"}, "192.0.2.5"},
		{"several headers are one list", []Option{proxies}, "10.0.0.1", []string{"203.0.113.9", "198.51.100.7,10.0.0.3", "10.0.0.2"}, "198.51.100.7"},
		{"no header", []Option{proxies}, "10.0.0.1", nil, "10.0.0.1"},
		{"only proxies", []Option{proxies}, "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"malformed hop ends the walk", []Option{proxies}, "10.0.0.1", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"malformed at once", []Option{proxies}, "10.0.0.1", []string{"203.0.113.9, "}, "10.0.0.1"},
		{"empty header", []Option{proxies}, "10.0.0.1", []string{""}, "10.0.0.1"},
		{"with port", []Option{proxies}, "10.0.0.1", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		{"IPv6 with port", []Option{proxies}, "2001:db8:ff::1", []string{"[2001:db8:1::5]:443"}, "2001:db8:1::5"},
		{"IPv6 in brackets", []Option{proxies}, "2001:db8:ff::1", []string{"[2001:db8:1::5]"}, "2001:db8:1::5"},
		{"IPv6 bare", []Option{proxies}, "2001:db8:ff::1", []string{"2001:db8:1::5"}, "2001:db8:1::5"},
		{"IPv4 in IPv6 proxy", []Option{proxies}, "::ffff:10.0.0.1", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"mapped network", []Option{WithTrustedProxies(prefix("::ffff:10.0.0.0/104"))}, "10.0.0.1", []string{"198.51.100.7"}, "198.51.100.7"},
		{"unmasked network", []Option{WithTrustedProxies(prefix("10.1.2.3/8"))}, "10.0.0.1", []string{"198.51.100.7"}, "198.51.100.7"},
		{"zone of a proxy", []Option{WithTrustedProxies(prefix("fe80::/10"))}, "fe80::1%eth0", []string{"198.51.100.7"}, "198.51.100.7"},
		{"function", []Option{WithClientIP(func(context.Context) (netip.Addr, bool) { return addr("::ffff:198.51.100.1"), true })}, "10.0.0.1", nil, "198.51.100.1"},
		{"function without an answer", []Option{WithClientIP(func(context.Context) (netip.Addr, bool) { return netip.Addr{}, false })}, "10.0.0.1", nil, "10.0.0.1"},
	} {
		l, err := New(nil, &fakeBackend{fallback: true}, c.opts...)
		if err != nil {
			t.Fatal(err)
		}
		call := Call{Transport: &fakeTransport{peer: addr(c.peer), header: map[string][]string{"x-forwarded-for": c.xff}}}
		if got, ok := l.clientAddr(context.Background(), &call); !ok || got != addr(c.want) {
			t.Errorf("%s: peer %s with %q counts as %v, %t; want %s", c.name, c.peer, c.xff, got, ok, c.want)
		}
	}
}

func FuzzForwardedFor(f *testing.F) {
	f.Add("203.0.113.9, 198.51.100.7, 10.0.0.2")
	f.Add("[::1]:80,[,],%,::1%lo")
	l, err := New(nil, &fakeBackend{fallback: true}, WithTrustedProxies(netip.MustParsePrefix("10.0.0.0/8")))
	if err != nil {
		f.Fatal(err)
	}
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, header string) {
		got := l.forwardedFor(peer, []string{header})
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q counts as %v, want a plain address", header, got)
		}
	})
}
