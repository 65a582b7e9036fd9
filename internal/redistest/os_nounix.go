//go:build !unix

package redistest

import "syscall"

// No redis-server runs here; the package compiles so that tests can skip.
const (
	sigStop = syscall.SIGTERM
	sigCont = syscall.SIGTERM
)
