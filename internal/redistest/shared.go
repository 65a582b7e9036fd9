package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// sharedDBs is how many tests of one binary may call Shared.
const sharedDBs = 4096

// The shared server belongs to no test: it is started for the first that asks
// and ends with the binary.
var shared struct {
	program Program
	mu      sync.Mutex
	server  *Server
	used    int
}

// Shared returns the one server of the test binary, with an empty database of
// its own for each call: about the time of one command instead of that of a
// start. The test must leave the server as it is: no CONFIG SET, no FLUSHALL,
// and Kill and its like fail. SCRIPT FLUSH and CLIENT PAUSE would be felt by
// tests that run in parallel.
//
// A package that shares has [Main] as its TestMain: without it a directory is
// left, and a goroutine that a look for leaks finds.
func Shared(tb TB) *Server {
	tb.Helper()
	Require(tb)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil || shared.server.PID() == 0 {
		shared.server = startShared(tb)
	}
	shared.used++
	if shared.used > sharedDBs {
		tb.Fatalf("redistest: more than %d tests share a server", sharedDBs)
	}
	s := &Server{
		Addr:     shared.server.Addr,
		tb:       tb,
		dir:      shared.server.dir,
		port:     shared.server.port,
		db:       shared.used, // 0 is left to whoever forgets to name one
		shared:   true,
		process:  shared.server.process,
		password: shared.server.password,
	}
	s.client = s.newClient()
	tb.Cleanup(func() {
		if err := s.client.Close(); err != nil {
			tb.Errorf("redistest: %v", err)
		}
	})
	return s
}

// startShared starts the server in the name of tb, if that fails, and for the
// life of the binary, if it does not.
func startShared(tb TB) *Server {
	tb.Helper()
	return Start(&lasting{TB: tb, program: &shared.program}, Config(fmt.Sprintf("databases %d", sharedDBs+1)))
}

// lasting fails as the test does, and cleans up with the binary.
type lasting struct {
	TB
	program *Program
}

func (l *lasting) Cleanup(f func()) { l.program.Cleanup(f) }
func (l *lasting) TempDir() string  { return l.program.TempDir() }
func (l *lasting) Failed() bool     { return false }

// Main runs the tests, ends the shared server, and fails if goroutines are
// left. A package that shares a server has it as its TestMain:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M, ignore ...goleak.Option) {
	code := m.Run()
	shared.program.Close()
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintf(os.Stderr, "redistest: goroutines are left: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreShared lets a look for leaked goroutines inside a test pass over the
// one that waits for the shared server.
func IgnoreShared() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/protolimit/ratelimit/internal/redistest.(*process).run")
}
