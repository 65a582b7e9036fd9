package redistest

import (
	"errors"
	"net"
	"testing"
)

func TestReservePort(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	ports, err := reservePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	defer releasePorts(ports)
	for _, p := range ports {
		if seen[p.number] || p.number+busOffset > 65535 || !listenable(p.number) || !listenable(p.number+busOffset) {
			t.Errorf("port %d: want one that is new and free, with its bus port", p.number)
		}
		seen[p.number] = true
	}
}

// TestPortTaken has another program come first.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	Require(t)
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	o := newOptions(nil)
	s := newServer(t, p, &o)
	if err := s.launch(serverConfig(p, &o)); !errors.Is(err, errPortTaken) {
		t.Errorf("start on a port that is taken: got %v, want errPortTaken", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(serverConfig(p, &o)); err != nil {
		t.Errorf("start when it is free: %v", err)
	}
}
