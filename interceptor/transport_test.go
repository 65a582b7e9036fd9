package interceptor_test

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// otherAddr is an address of a kind that nobody knows.
type otherAddr string

func (otherAddr) Network() string  { return "other" }
func (a otherAddr) String() string { return string(a) }

func tcp(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

func TestPeersCountByAddress(t *testing.T) {
	unix := func(name string) net.Addr { return &net.UnixAddr{Name: name, Net: "unix"} }
	for _, tt := range []struct {
		name string
		a, b net.Addr
		same bool
	}{
		{"ports of one address", tcp("192.0.2.1:1"), tcp("192.0.2.1:2"), true},
		{"two addresses", tcp("192.0.2.1:1"), tcp("192.0.2.2:1"), false},
		{"mapped IPv4", tcp("192.0.2.1:1"), tcp("[::ffff:192.0.2.1]:1"), true},
		{"one /64", tcp("[2001:db8:0:1::1]:1"), tcp("[2001:db8:0:1:ffff:ffff:ffff:ffff]:2"), true},
		{"two /64", tcp("[2001:db8:0:1::1]:1"), tcp("[2001:db8:0:2::1]:1"), false},
		{"two /48", tcp("[2001:db8:1::1]:1"), tcp("[2001:db8:2::1]:2"), false},
		{"zones", tcp("[fe80::1%eth0]:1"), tcp("[fe80::1%eth1]:1"), true},
		{"UDP", tcp("192.0.2.1:1"), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, true},
		{"IP", tcp("192.0.2.1:1"), &net.IPAddr{IP: net.IPv4(192, 0, 2, 1)}, true},
		{"text with port", tcp("[2001:db8::1]:1"), otherAddr("[2001:db8::1]:77"), true},
		{"text without port", tcp("[2001:db8::1]:1"), otherAddr("2001:db8::1"), true},
		{"unix sockets", unix("/run/a.sock"), unix("@"), true},
		{"unix socket that is called like an address", unix("192.0.2.1:1"), unix("@"), true},
		{"unix socket and text", unix("/run/a.sock"), otherAddr("bufconn"), true},
		{"unix socket and TCP", unix("/run/a.sock"), tcp("192.0.2.1:1"), false},
		{"text that is no address", otherAddr("example.com:80"), otherAddr("example.org:80"), true},
		{"unknown", otherAddr(""), nil, true},
		{"unknown and unix socket", otherAddr(""), unix("@"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend := &counter{}
			l := newLimiter(t, table([]ratelimit.Rule{rule("r", 10, part(ratelimit.SourceIP))}, unary), backend)
			intercept := interceptor.UnaryServer(l)
			for _, addr := range []net.Addr{tt.a, tt.b} {
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: addr})
				if _, err := intercept(ctx, nil, unaryInfo, pass); err != nil {
					t.Fatal(err)
				}
			}
			if same := backend.buckets() == 1; same != tt.same {
				t.Errorf("%v and %v share a bucket: %v, want %v", tt.a, tt.b, same, tt.same)
			}
		})
	}
}

func TestCallWithoutPeerLacksTheAddress(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no peer":    t.Context(),
		"nil peer":   peer.NewContext(t.Context(), nil),
		"no address": peer.NewContext(t.Context(), &peer.Peer{}),
		"no text":    peer.NewContext(t.Context(), &peer.Peer{Addr: otherAddr("")}),
	} {
		seen := &log{}
		l := newLimiter(t, table([]ratelimit.Rule{rule("r", 1, part(ratelimit.SourceIP))}, unary), &counter{}, observe(seen.saw))
		intercept := interceptor.UnaryServer(l)
		_, first := intercept(ctx, nil, unaryInfo, pass)
		_, second := intercept(ctx, nil, unaryInfo, pass)
		if first != nil || !interceptor.IsRefused(second) || seen.missing != 2 {
			t.Errorf("%s: calls ended with %v, %v and %d were seen to lack a part, want the second refused and both seen", name, first, second, seen.missing)
		}
	}
}

func TestManyPortsOfOneAddress(t *testing.T) {
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", 2, part(ratelimit.SourceIP))}, unary), &counter{})
	srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)))
	target := "passthrough:///" + listen(t, srv, nil)
	refusals := 0
	for range 10 {
		if interceptor.IsRefused(call(t.Context(), dial(t, target), unary, "x")) {
			refusals++
		}
	}
	if refusals != 8 {
		t.Errorf("10 connections of one address against a limit of 2: %d refused, want 8", refusals)
	}
}

func TestUnixSocketPeersAreOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	testLocalPeers(t, listener, func() *grpc.ClientConn { return dial(t, "unix:"+path) })
}

func TestBufconnPeersAreOne(t *testing.T) {
	listener := bufconn.Listen(1 << 16)
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	testLocalPeers(t, listener, func() *grpc.ClientConn { return dial(t, "passthrough:///buf", dialer) })
}

func testLocalPeers(t *testing.T, listener net.Listener, connect func() *grpc.ClientConn) {
	t.Helper()
	seen := &log{}
	l := newLimiter(t, table([]ratelimit.Rule{rule("r", 1, part(ratelimit.SourceIP))}, unary), &counter{}, observe(seen.saw))
	srv := grpc.NewServer(grpc.UnaryInterceptor(interceptor.UnaryServer(l)))
	srv.RegisterService(&echoService, &echo{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	if err := call(t.Context(), connect(), unary, "x"); err != nil {
		t.Errorf("first call: %v, want it served", err)
	}
	if err := call(t.Context(), connect(), unary, "x"); !interceptor.IsRefused(err) {
		t.Errorf("second call, on another connection: %v, want it refused", err)
	}
	if seen.missing != 0 {
		t.Errorf("%d calls were seen to lack a part, want 0: the peer is known", seen.missing)
	}
}

func TestForwardedForThroughRealMetadata(t *testing.T) {
	trusted := ratelimit.WithTrustedProxies(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"))
	for _, tt := range []struct {
		name    string
		opts    []ratelimit.Option
		headers [][]string // of calls
		buckets int
	}{
		{"peer is not trusted", nil, [][]string{{"198.51.100.1"}, {"198.51.100.2"}, nil}, 1},
		{"last entry counts", []ratelimit.Option{trusted}, [][]string{{"198.51.100.1"}, {"198.51.100.2"}}, 2},
		{
			"rotating the first entry does not help",
			[]ratelimit.Option{trusted},
			[][]string{{"203.0.113.1, 198.51.100.7"}, {"203.0.113.2, 198.51.100.7"}, {"203.0.113.3", "198.51.100.7"}},
			1,
		},
		{
			"trusted proxies are skipped",
			[]ratelimit.Option{trusted},
			[][]string{{"203.0.113.9, 198.51.100.7, 10.0.0.2"}, {"198.51.100.7"}, {"198.51.100.7", "10.0.0.2,10.0.0.3"}},
			1,
		},
		{
			"a malformed entry ends the walk",
			[]ratelimit.Option{trusted},
			[][]string{{"198.51.100.1, garbage, 10.0.0.2"}, {"198.51.100.2, garbage, 10.0.0.2"}, {"10.0.0.2"}},
			1,
		},
		{"trusted peer without header counts as itself", []ratelimit.Option{trusted}, [][]string{nil, {"127.0.0.1"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend := &counter{}
			conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 10, part(ratelimit.SourceIP))}, unary), backend, tt.opts...), nil)
			for _, values := range tt.headers {
				ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"x-forwarded-for": values})
				if err := call(ctx, conn, unary, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if n := backend.buckets(); n != tt.buckets {
				t.Errorf("%d buckets for %q, want %d", n, tt.headers, tt.buckets)
			}
		})
	}
}

func TestMetadataKeys(t *testing.T) {
	backend := &counter{}
	r := rule("r", 10, part(ratelimit.SourceMetadata, "x-key"))
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{r}, unary, bidi), backend), nil)
	for _, values := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"ab"}, {""}, nil} {
		for _, method := range []string{unary, bidi} {
			before := backend.buckets()
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"x-key": values})
			if err := call(ctx, conn, method, "x"); err != nil {
				t.Fatal(err)
			}
			if n := backend.buckets() - before; n != 1 {
				t.Errorf("%s with x-key %q: %d new buckets, want 1", method, values, n)
			}
		}
	}
}
