package redistest

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxyConn is one connection of a client and, once it has asked something,
// the one to the server that belongs to it.
type proxyConn struct {
	p      *Proxy
	client *net.TCPConn
	ended  chan struct{} // closed by end

	mu     sync.Mutex
	server *net.TCPConn
	isOver bool

	left     [2]atomic.Int64 // bytes until a way that is limited is cut
	dead     atomic.Bool     // something was swallowed
	answered atomic.Bool     // the last bytes were a reply
}

// A packet is what was read at once, and when.
type packet struct {
	bytes []byte
	at    time.Time
}

func newProxyConn(p *Proxy, client *net.TCPConn) *proxyConn {
	c := &proxyConn{p: p, client: client, ended: make(chan struct{})}
	c.answered.Store(true)
	return c
}

// serve passes bytes on until either side ends the connection.
func (c *proxyConn) serve() {
	defer c.p.forget(c)
	var wg sync.WaitGroup
	requests := make(chan packet, 1024)
	wg.Go(func() { c.read(c.client, requests) })
	wg.Go(func() {
		defer c.end(false)
		for request := range requests {
			bytes, ok := c.admit(request, toServer)
			if len(bytes) > 0 && !c.ask(&wg, bytes) || !ok {
				return
			}
		}
	})
	wg.Wait()
}

// ask sends a request to the server. The first connects to it.
func (c *proxyConn) ask(wg *sync.WaitGroup, request []byte) bool {
	if c.server == nil {
		conn, err := net.DialTimeout("tcp4", c.p.target, 5*time.Second) //nolint:noctx // ends with the proxy at the latest after that
		if err != nil {
			return false
		}
		c.mu.Lock()
		c.server = conn.(*net.TCPConn) // that is what tcp4 is
		over := c.isOver
		c.mu.Unlock()
		if over {
			_ = conn.Close() // end came too early for it
			return false
		}
		replies := make(chan packet, 1024)
		wg.Go(func() { c.read(c.server, replies) })
		wg.Go(func() {
			defer c.end(false)
			for reply := range replies {
				bytes, ok := c.admit(reply, toClient)
				if len(bytes) > 0 && !c.answer(bytes) || !ok {
					return
				}
			}
		})
	}
	if c.answered.Swap(false) {
		c.p.trips.Add(1)
	}
	n, err := c.server.Write(request)
	c.p.requests.Add(int64(n))
	return err == nil
}

// answer sends a reply to the client.
func (c *proxyConn) answer(reply []byte) bool {
	c.answered.Store(true)
	n, err := c.client.Write(reply)
	c.p.replies.Add(int64(n))
	return err == nil
}

// read makes packets of what a side sends, until it ends the connection.
func (c *proxyConn) read(from net.Conn, packets chan<- packet) {
	defer close(packets)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p := packet{bytes: append([]byte(nil), buf[:n]...), at: time.Now()}
			select {
			case packets <- p:
			case <-c.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// admit waits until a packet is due, and returns what of it goes on, and
// whether the connection does.
func (c *proxyConn) admit(p packet, way int) (bytes []byte, ok bool) {
	for {
		f, changed := c.p.current()
		if f.swallow {
			c.dead.Store(true)
		}
		if c.dead.Load() {
			return nil, true
		}
		late := f.delay - time.Since(p.at)
		if !f.hold && late <= 0 {
			return c.cut(p.bytes, f, way)
		}
		if f.hold {
			late = time.Hour // until something changes
		}
		if !c.wait(late, changed) {
			return nil, false
		}
	}
}

// wait waits for d or less, if the fault is replaced. It is false when the
// connection has ended.
func (c *proxyConn) wait(d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-c.ended:
		return false
	}
	return true
}

// cut returns what of the bytes goes on under a fault that ends connections.
func (c *proxyConn) cut(bytes []byte, f fault, way int) (passed []byte, ok bool) {
	if way == toServer && f.share > 0 && rand.Float64() < f.share { //nolint:gosec // hides nothing
		return nil, false
	}
	if !f.limited[way] {
		return bytes, true
	}
	if left := c.left[way].Add(-int64(len(bytes))); left < 0 {
		return bytes[:max(0, left+int64(len(bytes)))], false
	}
	return bytes, true
}

// end closes both connections, if need be with a reset.
func (c *proxyConn) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver {
		return
	}
	c.isOver = true
	close(c.ended)
	for _, conn := range []*net.TCPConn{c.client, c.server} {
		if conn == nil {
			continue
		}
		if reset {
			_ = conn.SetLinger(0) // the other side may have closed it
		}
		_ = conn.Close() // the same
	}
}
