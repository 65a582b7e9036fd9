package goredis_test

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// A monitor notes what a server is asked to do, as MONITOR tells it.
type monitor struct {
	server *redistest.Server
	conn   net.Conn
	over   chan struct{} // closed when nothing more comes

	mu    sync.Mutex
	seen  []command
	marks int
}

// A command is one that a server ran, by itself or from a script.
type command struct {
	lua  bool
	args []string
}

// watch starts a monitor.
func watch(t *testing.T, s *redistest.Server) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	m := &monitor{server: s, conn: conn, over: make(chan struct{})}
	t.Cleanup(func() {
		_ = conn.Close() // by stop already
		<-m.over
	})
	go m.read()
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	m.await(t)
	return m
}

func (m *monitor) read() {
	defer close(m.over)
	lines := bufio.NewReader(m.conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if c, ok := parseCommand(strings.TrimSpace(line)); ok {
			m.mu.Lock()
			if c.args[0] == "echo" {
				m.marks++
			} else {
				m.seen = append(m.seen, c)
			}
			m.mu.Unlock()
		}
	}
}

// await returns when the monitor has seen all that the server ran until now.
func (m *monitor) await(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	before := m.marks
	m.mu.Unlock()
	redistest.Eventually(t, 10*time.Second, "a command in MONITOR", func() bool {
		m.server.Do("ECHO", "mark")
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.marks > before
	})
}

// reset forgets what was seen.
func (m *monitor) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = nil
}

// all returns what the server ran until now, since the last reset.
func (m *monitor) all(t *testing.T) []command {
	t.Helper()
	m.await(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// parseCommand reads a line such as
// 1339518083.107412 [0 127.0.0.1:60866] "get" "key"
func parseCommand(line string) (command, bool) {
	_, line, found := strings.Cut(line, " [")
	source, rest, ok := strings.Cut(line, "] ")
	if !found || !ok {
		return command{}, false
	}
	c := command{lua: strings.HasSuffix(source, " lua")}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return command{}, false
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return command{}, false
		}
		c.args = append(c.args, arg)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if len(c.args) == 0 {
		return command{}, false
	}
	c.args[0] = strings.ToLower(c.args[0])
	return c, true
}

// isScript tells whether a command runs a script.
func (c command) isScript() bool {
	return !c.lua && (c.args[0] == "eval" || c.args[0] == "evalsha")
}

// declared returns the keys that a call of a script is given.
func (c command) declared() []string {
	n, err := strconv.Atoi(c.args[2])
	if err != nil {
		return nil
	}
	return c.args[3 : 3+n]
}

// scripts returns how many scripts ran on buckets of callers with opaque keys.
func scripts(seen []command) int {
	n := 0
	for _, c := range seen {
		if c.isScript() && slices.ContainsFunc(c.declared(), func(key string) bool { return strings.Contains(key, "{!") }) {
			n++
		}
	}
	return n
}

// checkDeclared fails the test if a script touched a key that it was not given,
// and returns how many were touched.
func checkDeclared(t *testing.T, s *redistest.Server, seen []command) int {
	t.Helper()
	touched := 0
	var declared []string
	keys := map[string][]string{}
	for _, c := range seen {
		if !c.lua {
			declared = nil
			if c.isScript() {
				declared = c.declared()
			}
			continue
		}
		id := strings.Join(c.args, "\x00")
		if keys[id] == nil {
			keys[id] = keysOf(t, s, c.args)
		}
		for _, key := range keys[id] {
			touched++
			if !slices.Contains(declared, key) {
				t.Errorf("a script given %q ran %q", declared, c.args)
			}
		}
	}
	return touched
}

// keysOf asks the server which keys a command has.
func keysOf(t *testing.T, s *redistest.Server, args []string) []string {
	t.Helper()
	if len(args) == 1 {
		return []string{}
	}
	command := []any{"COMMAND", "GETKEYS"}
	for _, a := range args {
		command = append(command, a)
	}
	keys, err := s.Client().Do(context.Background(), command...).StringSlice()
	if err != nil {
		if strings.Contains(err.Error(), "no key arguments") {
			return []string{}
		}
		t.Fatalf("keys of %q: %v", args, err)
	}
	return keys
}

func TestScriptsTouchTheirKeysOnly(t *testing.T) {
	s := redistest.Start(t)
	mix := newMixture(t, open(t, dialServer(t, s)))
	m := watch(t, s)
	for range 200 {
		mix.call()
		mix.adjust()
	}
	seen := m.all(t)
	touched := checkDeclared(t, s, seen)
	if ran := scripts(seen); ran < 200 || touched < 1000 {
		t.Errorf("%d scripts touched %d keys, want at least 200 and 1000", ran, touched)
	}
}

func TestScriptsTouchTheirKeysOnlyOnCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	mix := newMixture(t, open(t, dialCluster(t, c.Addrs())))
	var monitors []*monitor
	for _, s := range c.Masters() {
		monitors = append(monitors, watch(t, s))
	}
	for range 200 {
		mix.call()
		mix.adjust()
	}
	touched := 0
	for _, m := range monitors {
		touched += checkDeclared(t, m.server, m.all(t))
	}
	if touched < 1000 {
		t.Errorf("scripts touched %d keys, want at least 1000", touched)
	}
}
