package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// runFleet starts a Redis and two servers, and calls them in turn.
func runFleet(ctx context.Context, out io.Writer, _ options) error {
	var program redistest.Program
	defer program.Close()
	url := redistest.Start(&program).URL()
	ctx, stop := context.WithCancel(ctx)
	var addrs []string
	var waits []func()
	defer func() {
		stop()
		for _, wait := range waits {
			wait()
		}
	}()
	for range 2 {
		addr, wait, err := startServer(ctx, url)
		if err != nil {
			return err
		}
		addrs, waits = append(addrs, addr), append(waits, wait)
	}
	return runClient(ctx, out, addrs...)
}

// startServer starts this program again as a server that limits through the
// Redis at url. The server ends with ctx; wait returns when it has.
func startServer(ctx context.Context, url string) (addr string, wait func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	server := exec.CommandContext(ctx, self, "-serve", "-redis", url) //nolint:gosec // this program, and a URL of its own
	server.Stderr = os.Stderr
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	output, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	words := strings.Fields(line) // "Serving on HOST:PORT. ..."
	if err != nil || len(words) < 3 {
		_ = server.Process.Kill()
		_ = server.Wait()
		return "", nil, fmt.Errorf("a server said %q (%w), want where it serves", line, err)
	}
	return strings.TrimSuffix(words[2], "."), func() { _ = server.Wait() }, nil
}
