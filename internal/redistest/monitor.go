package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Command is one that a server has run.
type Command struct {
	Args   []string // its name first, as it was sent
	DB     int
	Client string // address of who sent it, "" for a script
}

// Script tells whether a script ran the command.
func (c Command) Script() bool { return c.Client == "" }

// Is tells whether the command has this name.
func (c Command) Is(name string) bool { return strings.EqualFold(c.Args[0], name) }

// A Commands is what a server has run, in order.
type Commands struct {
	s    *Server
	conn net.Conn
	done chan struct{} // closed when the last command was read

	mu   sync.Mutex
	seen []Command
	err  error
}

// Monitor records the commands that the server runs from now on, of scripts
// too, but for those that open a connection, such as HELLO and SELECT. On the server that tests share it sees those of the test's database. It
// ends with the test.
func Monitor(tb TB, s *Server) *Commands {
	tb.Helper()
	conn, err := net.DialTimeout("tcp4", s.Addr, 5*time.Second) //nolint:noctx // the timeout does
	if err != nil {
		tb.Fatalf("redistest: monitor: %v", err)
	}
	m := &Commands{s: s, conn: conn, done: make(chan struct{})}
	r := bufio.NewReader(conn)
	if err := m.begin(r); err != nil {
		_ = conn.Close() // the first error is the one to tell
		tb.Fatalf("redistest: monitor: %v", err)
	}
	go m.read(r)
	tb.Cleanup(func() {
		_ = conn.Close() // the server may have
		<-m.done
	})
	return m
}

func (m *Commands) begin(r *bufio.Reader) error {
	ask := []string{"MONITOR"}
	if m.s.password != "" {
		ask = []string{"AUTH " + m.s.password, "MONITOR"}
	}
	for _, line := range ask {
		if _, err := fmt.Fprintf(m.conn, "%s\r\n", line); err != nil {
			return err
		}
		reply, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if reply != "+OK\r\n" {
			return fmt.Errorf("%s: %q", line, reply)
		}
	}
	return nil
}

func (m *Commands) read(r *bufio.Reader) {
	defer close(m.done)
	for {
		line, err := r.ReadString('\n')
		var c Command
		if err == nil {
			c, err = parseCommand(line)
		}
		m.mu.Lock()
		if err != nil {
			m.err = err
		} else {
			m.seen = append(m.seen, c)
		}
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Take returns the commands that have ended before the call, since the start
// or the Take before.
func (m *Commands) Take() []Command {
	m.s.tb.Helper()
	// Once the server shows this one, it has shown all before.
	mark := "redistest:" + randomID()
	m.s.Do("ECHO", mark)
	var taken []Command
	Eventually(m.s.tb, startWithin, "the end of what MONITOR shows", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		end := slices.IndexFunc(m.seen, func(c Command) bool { return c.Is("ECHO") && c.Args[1] == mark })
		if end < 0 {
			if m.err != nil {
				m.s.tb.Fatalf("redistest: monitor: %v", m.err)
			}
			return false
		}
		taken, m.seen = m.seen[:end], slices.Clone(m.seen[end+1:])
		return true
	})
	return slices.DeleteFunc(taken, func(c Command) bool {
		return m.s.shared && c.DB != m.s.db || c.housekeeping()
	})
}

// housekeeping tells whether the command opens a connection, or is this
// package's own question.
func (c Command) housekeeping() bool {
	switch strings.ToUpper(c.Args[0]) {
	case "AUTH", "CLIENT", "COMMAND", "HELLO", "SELECT":
		return !c.Script()
	default:
		return c.Is("ECHO") && strings.HasPrefix(c.Args[1], "redistest:")
	}
}

// parseCommand reads a line such as
//
//	+1764504000.123456 [0 127.0.0.1:50000] "get" "k"
func parseCommand(line string) (c Command, err error) {
	wrong := fmt.Errorf("MONITOR shows %q", line)
	_, rest, opened := strings.Cut(line, " [")
	where, quoted, closed := strings.Cut(rest, "] ")
	db, client, both := strings.Cut(where, " ")
	if !opened || !closed || !both {
		return c, wrong
	}
	if c.DB, err = strconv.Atoi(db); err != nil {
		return c, wrong
	}
	if client != "lua" {
		c.Client = client
	}
	for quoted = strings.TrimSpace(quoted); quoted != ""; quoted = strings.TrimPrefix(quoted, " ") {
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return c, wrong
		}
		arg, err := strconv.Unquote(prefix)
		if err != nil {
			return c, wrong
		}
		c.Args = append(c.Args, arg)
		quoted = quoted[len(prefix):]
	}
	if len(c.Args) == 0 {
		return c, wrong
	}
	return c, nil
}

// Undeclared returns the keys that scripts among the commands have touched,
// and that were not among their KEYS. They must not come from connections that
// run scripts at the same time: MONITOR shows what runs inside a script right
// behind it.
func (s *Server) Undeclared(commands []Command) []string {
	s.tb.Helper()
	var undeclared, declared []string
	for _, c := range commands {
		if !c.Script() {
			declared = scriptKeys(c)
			continue
		}
		for _, key := range s.Keys(c) {
			if !slices.Contains(declared, key) {
				undeclared = append(undeclared, key)
			}
		}
	}
	return undeclared
}

// Keys returns the keys that a command names, as the server knows its
// commands.
func (s *Server) Keys(c Command) []string {
	s.tb.Helper()
	if len(c.Args) == 1 {
		return nil // and COMMAND GETKEYS would not have it
	}
	args := []any{"COMMAND", "GETKEYS"}
	for _, arg := range c.Args {
		args = append(args, arg)
	}
	keys, err := s.Client().Do(context.Background(), args...).StringSlice()
	if redis.HasErrorPrefix(err, "The command has no key arguments") || redis.HasErrorPrefix(err, "Invalid arguments") {
		return nil
	}
	if err != nil {
		s.tb.Fatalf("redistest: keys of %q: %v", c.Args, err)
	}
	return keys
}

// scriptKeys returns the KEYS of a command that runs a script, none for others.
func scriptKeys(c Command) []string {
	switch strings.ToUpper(c.Args[0]) {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO":
	default:
		return nil
	}
	if len(c.Args) < 3 {
		return nil
	}
	n, err := strconv.Atoi(c.Args[2])
	if err != nil || n < 0 || n > len(c.Args)-3 {
		return nil
	}
	return c.Args[3 : 3+n]
}
