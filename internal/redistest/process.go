package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A process is one run of the server's program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// startProcess runs the server's program in dir with a configuration file of
// that directory. What it prints goes to the file log there.
func startProcess(dir, config string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // of a temporary directory
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	p := &process{
		cmd: &exec.Cmd{
			Path: binary(),
			// The program does what its name says, and may be installed by another.
			Args:        append([]string{"redis-server", filepath.Join(dir, config)}, args...),
			Dir:         dir,
			Stdout:      log,
			Stderr:      log,
			SysProcAttr: dieWithParent(),
		},
		done: make(chan struct{}),
	}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run starts the process and waits for its end, on one thread that lives as
// long: the death of the thread that started it would kill the process.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // how a server ended tells its log
	}
}

// running tells whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process as kill -9 does, and returns when it is gone, with its
// sockets.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// terminate asks the process to end, and kills it if it does not soon.
func (p *process) terminate() {
	// A suspended process sees the signal when it is resumed.
	_ = p.signal(sigCont)
	_ = p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.kill()
	}
}

func (p *process) signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process %d has ended", p.cmd.Process.Pid)
	}
	return err
}

// logTail returns the last lines of what the servers of dir printed.
func logTail(dir string) string {
	log, err := os.ReadFile(filepath.Join(dir, "log")) //nolint:gosec // of a temporary directory
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// portTaken tells whether the last server of dir gave up because somebody
// listens on its port.
func portTaken(dir string) bool {
	log, err := os.ReadFile(filepath.Join(dir, "log")) //nolint:gosec // of a temporary directory
	return err == nil && bytes.Contains(log, []byte("Address already in use"))
}
