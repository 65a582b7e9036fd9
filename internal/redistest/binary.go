package redistest

import (
	"os"
	"os/exec"
	"strconv"
)

// binary returns the path of the server's program, "" if there is none.
func binary() string {
	if named := os.Getenv("REDIS_SERVER"); named != "" {
		return named
	}
	for _, name := range []string{"redis-server", "redis-check-rdb", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Require skips the test if no server can be started here or, when the
// environment variable CI is true, fails it. Start and its like call it.
func Require(tb TB) {
	tb.Helper()
	if binary() != "" {
		return
	}
	const reason = "redistest: no redis-server in PATH, and REDIS_SERVER does not name one; `make test` installs it where it can"
	if ci, err := strconv.ParseBool(os.Getenv("CI")); err == nil && ci {
		tb.Fatalf(reason)
	}
	tb.Skipf(reason)
}
