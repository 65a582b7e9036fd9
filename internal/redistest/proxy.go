package redistest

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy is a network between a client and a server that does as it is told.
// It starts by passing everything on. Its methods may be called at any time
// and from any goroutine; each replaces what the one before said, and holds
// for the connections that are open too. It ends with the test.
type Proxy struct {
	// Addr is where to connect to.
	Addr string

	tb     TB
	target string
	port   *port
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener // nil while it refuses
	conns    map[*proxyConn]struct{}
	fault    fault
	changed  chan struct{} // closed when fault is replaced

	accepted, requests, replies, trips atomic.Int64
}

// A fault is what happens to the bytes. The zero fault passes them on.
type fault struct {
	swallow bool
	hold    bool
	delay   time.Duration
	share   float64  // of the packets of a client that close the connection instead
	limit   [2]int64 // bytes a connection still passes each way, if limited
	limited [2]bool
}

// The ways of limit and limited.
const (
	toServer = iota
	toClient
)

// ProxyStats counts what a proxy has seen since it was started.
type ProxyStats struct {
	Accepted   int64 // connections
	Live       int64 // connections that are open now
	Requests   int64 // bytes that reached the server
	Replies    int64 // bytes that reached the client
	RoundTrips int64 // times that a request followed a reply, or began a connection
}

// NewProxy returns a proxy to an address.
func NewProxy(tb TB, target string) *Proxy {
	tb.Helper()
	port, err := reservePort()
	if err != nil {
		tb.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{
		Addr:    port.addr(),
		tb:      tb,
		target:  target,
		port:    port,
		conns:   map[*proxyConn]struct{}{},
		changed: make(chan struct{}),
	}
	tb.Cleanup(func() {
		p.refuse()
		p.wg.Wait()
		port.release()
	})
	p.Pass()
	return p
}

// Pass passes everything on, at once. A connection of which something was
// swallowed stays dead: what follows would make no sense.
func (p *Proxy) Pass() {
	p.tb.Helper()
	p.become(fault{})
}

// Refuse closes all connections and accepts none, as a machine does whose
// server is down.
func (p *Proxy) Refuse() {
	p.set(fault{})
	p.refuse()
}

// Swallow accepts connections, reads and answers nothing, on open connections
// too, and closes none: packets lost for good.
func (p *Proxy) Swallow() {
	p.tb.Helper()
	p.become(fault{swallow: true})
}

// Hold passes nothing on, and all of it, late, when another fault or Pass
// follows: packets lost for a time.
func (p *Proxy) Hold() {
	p.tb.Helper()
	p.become(fault{hold: true})
}

// Delay passes everything on d late, each way. Order and throughput stay.
func (p *Proxy) Delay(d time.Duration) {
	p.tb.Helper()
	p.become(fault{delay: d})
}

// CutRequests closes each connection when n bytes more of it have reached the
// server.
func (p *Proxy) CutRequests(n int64) {
	p.tb.Helper()
	f := fault{}
	f.limit[toServer], f.limited[toServer] = n, true
	p.become(f)
}

// CutReplies closes each connection when n bytes more of it have reached the
// client and the server sends another. With 0 the server does what it was
// asked, and nobody hears.
func (p *Proxy) CutReplies(n int64) {
	p.tb.Helper()
	f := fault{}
	f.limit[toClient], f.limited[toClient] = n, true
	p.become(f)
}

// Flaky closes the connection instead of passing a client's packet on, for
// this share of them, from 0 to 1. Nothing of the packet reaches the server.
func (p *Proxy) Flaky(share float64) {
	p.tb.Helper()
	p.become(fault{share: share})
}

// Drop resets all open connections. New ones are as before.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.end(true)
	}
}

// Stats returns the counts.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	live := len(p.conns)
	p.mu.Unlock()
	return ProxyStats{
		Accepted:   p.accepted.Load(),
		Live:       int64(live),
		Requests:   p.requests.Load(),
		Replies:    p.replies.Load(),
		RoundTrips: p.trips.Load(),
	}
}

// become sets the fault and listens.
func (p *Proxy) become(f fault) {
	p.tb.Helper()
	p.set(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port.number})
	if err != nil {
		p.tb.Fatalf("redistest: proxy: %v", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
}

// set replaces the fault and wakes those that wait for the end of the old one.
func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for c := range p.conns {
		c.left[toServer].Store(f.limit[toServer])
		c.left[toClient].Store(f.limit[toClient])
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns the fault, and what is closed when it is replaced.
func (p *Proxy) current() (f fault, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// refuse closes the listener and all connections.
func (p *Proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // it was open
		p.listener = nil
	}
	for c := range p.conns {
		c.end(true)
	}
}

// accept serves what the listener accepts, until it is closed.
func (p *Proxy) accept(l *net.TCPListener) {
	for {
		client, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.accepted.Add(1)
		c := newProxyConn(p, client)
		p.mu.Lock()
		refused := p.listener != l
		if !refused {
			p.conns[c] = struct{}{}
			c.left[toServer].Store(p.fault.limit[toServer])
			c.left[toClient].Store(p.fault.limit[toClient])
		}
		p.mu.Unlock()
		if refused {
			c.end(true)
			continue
		}
		p.wg.Go(c.serve)
	}
}

// forget drops a connection that has ended.
func (p *Proxy) forget(c *proxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
