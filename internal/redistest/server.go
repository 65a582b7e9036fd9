package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// startWithin is generous: it passes only where something is broken.
const startWithin = 20 * time.Second

// A Server is a running redis-server, or one that was killed and may be
// started again, on the same port. Its methods fail the test when they cannot
// do what they say; as with Fatal, call those from the test's own goroutine.
// The server ends with the test.
type Server struct {
	// Addr is the address of the server, such as "127.0.0.1:12345". It stays
	// reserved for it while it is down.
	Addr string

	tb       TB
	dir      string   // its own, with redis.conf and log
	args     []string // of the command, for every start
	port     *port
	password string
	db       int
	shared   bool

	mu      sync.Mutex
	process *process
	client  *redis.Client
}

// Start starts a server and returns when it answers. It keeps nothing on disk.
func Start(tb TB, opts ...Option) *Server {
	tb.Helper()
	Require(tb)
	o := newOptions(opts)
	var last error
	for range 5 {
		p, err := reservePort()
		if err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		s := newServer(tb, p, &o)
		err = s.launch(serverConfig(p, &o))
		if err == nil {
			return s
		}
		last = err
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	tb.Fatalf("redistest: %v", last)
	return nil
}

// newServer returns a server that is yet to be launched. It ends, and gives up
// its port, with the test.
func newServer(tb TB, p *port, o *options) *Server {
	s := &Server{Addr: p.addr(), tb: tb, dir: tb.TempDir(), port: p, password: o.password}
	tb.Cleanup(func() {
		s.stop((*process).kill)
		if tb.Failed() {
			tb.Logf("redistest: server %s: the end of its log:\n%s", s.Addr, logTail(s.dir))
		}
		p.release()
	})
	return s
}

// serverConfig returns the lines of a configuration file. Of lines that set
// the same the last wins.
func serverConfig(p *port, o *options, more ...string) []string {
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(p.number),
		`save ""`,
		"appendonly no",
		// Without the disk a new replica that is in touch may get nothing for
		// up to a second more.
		"repl-diskless-sync no",
		"rdb-del-sync-files yes",
	}
	if o.password != "" {
		lines = append(lines, "requirepass "+o.password, "masterauth "+o.password)
	}
	lines = append(lines, more...)
	return append(lines, o.config...)
}

// errPortTaken reports that another program came first.
var errPortTaken = errors.New("somebody else listens on the port")

// launch writes the configuration and starts the server.
func (s *Server) launch(config []string) error {
	text := strings.Join(append(config, "dir "+s.dir), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(text), 0o600); err != nil {
		return err
	}
	return s.start(loaded)
}

// start starts the server as it is configured, and returns when it answers and
// ready has no error.
func (s *Server) start(ready func(*redis.Client) error, args ...string) error {
	p, err := startProcess(s.dir, "redis.conf", append(s.args, args...)...)
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	client := s.newClient()
	err = poll(startWithin, func() error {
		if !p.running() {
			return permanent{errors.New("redis-server has ended")}
		}
		// The client would print each connection that is refused.
		conn, err := net.Dial("tcp", s.Addr) //nolint:noctx // loopback: it is accepted or refused at once
		if err != nil {
			return err
		}
		_ = conn.Close() // nothing was sent
		// Whoever answers may be another server, or does not even answer.
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		pid, err := infoField(ctx, client, "server", "process_id")
		if err != nil {
			return err
		}
		if pid != strconv.Itoa(p.cmd.Process.Pid) {
			return fmt.Errorf("process %s answers instead of %d", pid, p.cmd.Process.Pid)
		}
		return ready(client)
	})
	if err != nil {
		p.kill()
		_ = client.Close() // the first error is the one to tell
		if portTaken(s.dir) {
			return fmt.Errorf("%s: %w", s.Addr, errPortTaken)
		}
		return fmt.Errorf("redis-server %s: %w\n%s", s.Addr, err, logTail(s.dir))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.client = p, client
	return nil
}

// loaded has no error when the server has its data in memory.
func loaded(c *redis.Client) error {
	loading, err := infoField(context.Background(), c, "persistence", "loading")
	if err == nil && loading == "1" {
		return errors.New("it is loading")
	}
	return err
}

// newClient returns a client for the test's own use: it hides nothing by
// repeating commands, and waits long.
func (s *Server) newClient() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  s.Addr,
		Password:              s.password,
		DB:                    s.db,
		Protocol:              2,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}

// stop ends the process, if any, by end.
func (s *Server) stop(end func(*process)) {
	s.mu.Lock()
	p, client := s.process, s.client
	s.process, s.client = nil, nil
	s.mu.Unlock()
	if p == nil {
		return
	}
	end(p)
	_ = client.Close() // its connections are gone already
}

// URL returns the server's address as go-redis parses it, with the password
// and the database if there are any: "redis://127.0.0.1:12345".
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	if s.db != 0 {
		u.Path = "/" + strconv.Itoa(s.db)
	}
	return u.String()
}

// DB is the number of the database that URL and Client use, 0 but for Shared.
func (s *Server) DB() int { return s.db }

// Client returns a client for looking and acting beside the code under test.
// It is closed when the server goes down, and is another after Restart.
func (s *Server) Client() *redis.Client {
	s.tb.Helper()
	client, err := s.running()
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	return client
}

// running returns the client of a server that is not down.
func (s *Server) running() (*redis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil, fmt.Errorf("server %s is down", s.Addr)
	}
	return s.client, nil
}

// Do sends a command and returns its reply; a reply that is an error fails the
// test.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	reply, err := s.Client().Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.tb.Fatalf("redistest: server %s: %v: %v", s.Addr, args, err)
	}
	return reply
}

// Info returns a field of a section of INFO, "" if there is none.
func (s *Server) Info(section, field string) string {
	s.tb.Helper()
	value, err := infoField(context.Background(), s.Client(), section, field)
	if err != nil {
		s.tb.Fatalf("redistest: server %s: INFO %s: %v", s.Addr, section, err)
	}
	return value
}

// PID returns the number of the running process, 0 if it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.running() {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// infoField returns a field of a section of INFO.
func infoField(ctx context.Context, c *redis.Client, section, field string) (string, error) {
	info, err := c.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	return parseInfo(info)[field], nil
}

// parseInfo splits the "field:value" lines of INFO and CLUSTER INFO.
func parseInfo(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// each calls f for all servers at once.
func each(servers []*Server, f func(i int, s *Server) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = f(i, s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
