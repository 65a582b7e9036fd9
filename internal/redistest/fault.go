package redistest

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Kill ends the server as kill -9 does: its state is lost, its connections are
// reset, its port refuses. A server that is down stays so.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("kill")
	s.stop((*process).kill)
}

// Stop ends the server in an orderly way.
func (s *Server) Stop() {
	s.tb.Helper()
	s.own("stop")
	s.stop((*process).terminate)
}

// Restart starts the server again, on the same port, and kills it before if it
// runs. It begins empty, but for a cluster node and a sentinel, which remember
// their peers, and after a SAVE.
func (s *Server) Restart() {
	s.tb.Helper()
	s.own("restart")
	s.stop((*process).kill)
	if err := s.start(loaded); err != nil {
		s.tb.Fatalf("redistest: restart: %v", err)
	}
}

// Pause suspends the process, so that the server is silent: the system still
// accepts connections for it, and nothing is answered.
func (s *Server) Pause() {
	s.tb.Helper()
	s.own("pause")
	s.signal(sigStop)
	pid := s.PID()
	Eventually(s.tb, 5*time.Second, "suspending "+s.Addr, func() bool { return suspended(pid) })
}

// Resume ends a Pause. What was sent meanwhile is served.
func (s *Server) Resume() {
	s.tb.Helper()
	s.own("resume")
	s.signal(sigCont)
}

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	s.mu.Lock()
	p := s.process
	s.mu.Unlock()
	if p == nil {
		s.tb.Fatalf("redistest: signal %v: server %s is down", sig, s.Addr)
	}
	if err := p.signal(sig); err != nil {
		s.tb.Fatalf("redistest: signal %v to server %s: %v", sig, s.Addr, err)
	}
}

// RestartLoading restarts the server with data that it takes at least the
// given time to load. Until then it answers most commands with LOADING. What
// it held is kept, and removed are the keys that slow the loading down.
func (s *Server) RestartLoading(d time.Duration) {
	s.tb.Helper()
	s.own("restart")
	const keys = 1000
	fill := "for i = 1, ARGV[1] do redis.call('SET', 'redistest:loading:' .. i, string.rep('x', 1024)) end"
	s.Do("EVAL", fill, 0, keys)
	s.Do("SAVE")
	s.stop((*process).kill)
	// The delay is in microseconds a key; the server looks at its clients each
	// time it has read as many bytes.
	args := []string{"--key-load-delay", strconv.FormatInt(d.Microseconds()/keys, 10), "--loading-process-events-interval-bytes", "1024"}
	err := s.start(func(c *redis.Client) error { return nil }, args...)
	if err != nil {
		s.tb.Fatalf("redistest: restart: %v", err)
	}
}

// Busy keeps the server busy with a script, so that it answers BUSY to all
// commands, until the function that it returns is called.
func (s *Server) Busy() (release func()) {
	s.tb.Helper()
	s.own("block")
	s.Do("CONFIG", "SET", "lua-time-limit", 1)
	ended := make(chan struct{})
	client := s.newClient()
	go func() {
		defer close(ended)
		_ = client.Eval(context.Background(), "while true do end", nil).Err() // ends by SCRIPT KILL
	}()
	probe := s.Client()
	Eventually(s.tb, 5*time.Second, "a busy server", func() bool {
		return redis.HasErrorPrefix(probe.Ping(context.Background()).Err(), "BUSY")
	})
	return func() {
		s.Do("SCRIPT", "KILL")
		<-ended
		_ = client.Close() // nothing is under way on it
	}
}

// own fails the test if the server is not its own.
func (s *Server) own(verb string) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("redistest: a test wants to %s the server that all share; use Start", verb)
	}
}
