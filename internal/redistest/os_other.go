//go:build !linux

package redistest

import "syscall"

// dieWithParent needs Linux. Elsewhere servers end with their tests, and
// outlive a test binary that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }

// suspended cannot be told here: the signal has been sent, that must do.
func suspended(int) bool { return true }
