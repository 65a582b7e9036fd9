package redistest

import (
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"time"
)

// TB is what the package asks of a test: [testing.T] and [testing.B] have it,
// and [Program] gives it to a command that needs servers too.
type TB interface {
	Helper()
	Name() string
	Failed() bool
	Cleanup(f func())
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Program is a TB for a command: what would fail or skip a test ends the
// process with a message. The zero Program is ready; Close is due at its end.
type Program struct {
	mu       sync.Mutex
	cleanups []func()
}

// Close undoes what was started, the last first.
func (p *Program) Close() {
	for {
		p.mu.Lock()
		if len(p.cleanups) == 0 {
			p.mu.Unlock()
			return
		}
		last := len(p.cleanups) - 1
		f := p.cleanups[last]
		p.cleanups = slices.Delete(p.cleanups, last, last+1)
		p.mu.Unlock()
		f()
	}
}

// Cleanup has f called by Close.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// TempDir returns a new directory that Close removes.
func (p *Program) TempDir() string {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		p.Fatalf("%v", err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) }) // a file left in the system's temporary directory is no failure
	return dir
}

// Fatalf prints the message, closes p and ends the process with code 1.
func (p *Program) Fatalf(format string, args ...any) {
	log.Printf(format, args...)
	p.Close()
	os.Exit(1)
}

// Skipf is Fatalf: a command cannot do without what a test may.
func (p *Program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

// Errorf is Fatalf: a command that lost its servers has nothing to go on with.
func (p *Program) Errorf(format string, args ...any) { p.Fatalf(format, args...) }

// Logf prints the message.
func (*Program) Logf(format string, args ...any) { log.Printf(format, args...) }

// Helper does nothing.
func (*Program) Helper() {}

// Name is "program".
func (*Program) Name() string { return "program" }

// Failed is false.
func (*Program) Failed() bool { return false }

// Eventually asks done again and again until it is true, and fails the test if
// it is not within the given time. what names the thing that is waited for.
func Eventually(tb TB, within time.Duration, what string, done func() bool) {
	tb.Helper()
	err := poll(within, func() error {
		if !done() {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("redistest: not within %v: %s", within, what)
	}
}

var errNotYet = errors.New("not yet")

// A permanent error is one that waiting does not mend.
type permanent struct{ error }

// pollEvery is short against what anything here takes, and costs little.
const pollEvery = 2 * time.Millisecond

// poll calls try until it returns nil. It gives up, with the last error, after
// the given time or at a permanent error.
func poll(within time.Duration, try func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if _, stop := errors.AsType[permanent](err); stop {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", within, err)
		}
		time.Sleep(pollEvery)
	}
}
