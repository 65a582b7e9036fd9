package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below the range that systems give to outgoing connections
// and to listeners on port 0, so that a port stays free while its server is
// down. A cluster node's bus listens busOffset above its port.
const (
	firstPort = 11000
	portCount = 10000
	busOffset = 10000
)

// A port is reserved by holding the UDP port of the same number, which Redis
// has no use for: processes of this package then never pick the same, from
// before the server listens until after it was killed and started again.
type port struct {
	number int
	lock   net.PacketConn
}

// reservePort finds a port that nobody has reserved and nobody listens on,
// neither on it nor on its bus port.
func reservePort() (*port, error) {
	start := rand.IntN(portCount) //nolint:gosec // spreads processes over the range, hides nothing
	for i := range portCount {
		number := firstPort + (start+i)%portCount
		lock, err := net.ListenPacket("udp4", loopback(number)) //nolint:noctx // a local bind does not wait
		if err != nil {
			continue
		}
		if listenable(number) && listenable(number+busOffset) {
			return &port{number: number, lock: lock}, nil
		}
		if err := lock.Close(); err != nil {
			return nil, fmt.Errorf("port %d: %w", number, err)
		}
	}
	return nil, errors.New("no free port on the loopback address")
}

// reservePorts reserves n ports.
func reservePorts(n int) ([]*port, error) {
	ports := make([]*port, 0, n)
	for range n {
		p, err := reservePort()
		if err != nil {
			releasePorts(ports)
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// release lets others have the port.
func (p *port) release() { _ = p.lock.Close() } // a UDP socket has nothing to flush

func releasePorts(ports []*port) {
	for _, p := range ports {
		p.release()
	}
}

func (p *port) addr() string { return loopback(p.number) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func listenable(port int) bool {
	l, err := net.Listen("tcp4", loopback(port)) //nolint:noctx // a local bind does not wait
	return err == nil && l.Close() == nil
}
