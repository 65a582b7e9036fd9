package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent has the system kill the server when the thread that started it
// ends, and so at the latest with the process.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// suspended tells whether a stop signal has taken effect.
func suspended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the program's name, which is in parentheses.
	_, state, found := bytes.Cut(stat, []byte(") "))
	return found && len(state) > 0 && state[0] == 'T'
}
