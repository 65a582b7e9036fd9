package redistest

import (
	"os"
	"syscall"
)

// Gone tells whether a process has ended, by the signal that does nothing.
func Gone(p *os.Process) bool { return p.Signal(syscall.Signal(0)) != nil }
