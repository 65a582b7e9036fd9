package harness

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Machine tells in one paragraph where and when figures were taken: processor,
// cores, operating system, Go, date, and how busy the machine was with other
// things.
func Machine(now time.Time) string {
	load := "not known"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(b), " ")
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s; %s; load average before the run %s.",
		processor(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), now.UTC().Format(time.DateOnly), load)
}

// processor returns the processor's name where Linux tells it.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor not known"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor not known"
}

// Versions lists modules as they were built into this program: "path v1.2.3".
func Versions(paths ...string) string {
	info, _ := debug.ReadBuildInfo()
	var found []string
	for _, path := range paths {
		version := "not known"
		if info != nil {
			for _, m := range info.Deps {
				if m.Path == path {
					version = m.Version
				}
			}
		}
		found = append(found, path+" "+version)
	}
	return strings.Join(found, ", ")
}
