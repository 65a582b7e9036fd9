package inprocess

import "syscall"

// rusageThread is RUSAGE_THREAD of getrusage(2).
const rusageThread = 1

// preemptions returns how often the operating system took the processor from
// this thread.
func preemptions() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(rusageThread, &usage) != nil {
		return 0
	}
	return usage.Nivcsw
}
