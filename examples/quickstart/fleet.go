package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// servers is how many servers a fleet has.
const servers = 2

// runFleet starts a Redis and its servers, calls these in turn, and then takes the
// Redis away from them for a while. What the servers log is shown if that fails.
func runFleet(ctx context.Context, out io.Writer, _ options) error {
	var program redistest.Program
	defer program.Close()
	redis := redistest.Start(&program)
	log, err := os.CreateTemp(program.TempDir(), "log")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := playFleet(ctx, out, redis, log); err != nil {
		text, _ := os.ReadFile(log.Name()) // without it, the error alone
		return fmt.Errorf("%w; the servers log:\n%s", err, text)
	}
	return nil
}

// playFleet is runFleet with a Redis and a file for what the servers log.
func playFleet(ctx context.Context, out io.Writer, redis *redistest.Server, log *os.File) error {
	ctx, stop := context.WithCancel(ctx)
	var addrs []string
	var waits []func()
	defer func() {
		stop()
		for _, wait := range waits {
			wait()
		}
	}()
	for range servers {
		addr, wait, err := startServer(ctx, redis.URL(), log)
		if err != nil {
			return err
		}
		addrs, waits = append(addrs, addr), append(waits, wait)
	}
	if err := runClient(ctx, out, addrs...); err != nil {
		return err
	}
	return runOutage(ctx, out, redis, addrs...)
}

// startServer starts this program again as a server that limits through the
// Redis at url and logs to a file. The server ends with ctx; wait returns when it has.
func startServer(ctx context.Context, url string, log *os.File) (addr string, wait func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	server := exec.CommandContext(ctx, self, "-serve", "-redis", url, "-instances", strconv.Itoa(servers)) //nolint:gosec // this program, and a URL of its own
	server.Stderr = log
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
