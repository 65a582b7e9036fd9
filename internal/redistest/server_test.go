package redistest_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestStart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config("maxmemory 3mb", "maxmemory-policy noeviction"), redistest.Password("secret"))
	opt, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	defer closeIt(t, c)
	if got, err := c.ConfigGet(t.Context(), "maxmemory").Result(); err != nil || got["maxmemory"] != "3145728" {
		t.Errorf("maxmemory by the server's URL: got %v, %v, want 3145728", got, err)
	}
	if got := s.Do("PING"); got != "PONG" {
		t.Errorf("PING: got %v, want PONG", got)
	}
	if got, want := s.Info("server", "process_id"), strconv.Itoa(s.PID()); got != want {
		t.Errorf("process_id: got %s, want %s", got, want)
	}
	stranger := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer closeIt(t, stranger)
	if err := stranger.Ping(t.Context()).Err(); err == nil {
		t.Error("PING without the password: got no error")
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := client(t, s.Addr)
	s.Do("SET", "k", "v")
	for _, end := range []func(){s.Kill, s.Stop, func() {}} {
		end()
		if s.PID() == 0 {
			if err := c.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "EOF") {
				t.Errorf("PING to a dead server: got %v, want a refused connection", err)
			}
		}
		s.Restart()
		if got := s.Do("EXISTS", "k"); got != int64(0) {
			t.Errorf("EXISTS after a restart: got %v, want 0", got)
		}
		s.Do("SET", "k", "v")
	}
	s.Kill()
	s.Kill()
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := client(t, s.Addr)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("PING to a suspended server: got an answer")
	}
	s.Resume()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING to a resumed server: %v", err)
	}
	s.Pause() // and the end of the test kills it
}

func TestRestartLoading(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "v")
	s.RestartLoading(300 * time.Millisecond)
	c := client(t, s.Addr)
	start := time.Now()
	if err := c.Get(t.Context(), "k").Err(); !redis.IsLoadingError(err) {
		t.Errorf("GET while loading: got %v, want LOADING", err)
	}
	redistest.Eventually(t, 10*time.Second, "the data", func() bool { return c.Get(t.Context(), "k").Val() == "v" })
	if took := time.Since(start); took < 150*time.Millisecond {
		t.Errorf("loading took %v, want about 300ms", took)
	}
	s.Restart()
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("GET after another restart: got %v, want v", got)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	release := s.Busy()
	if err := client(t, s.Addr).Get(t.Context(), "k").Err(); !redis.HasErrorPrefix(err, "BUSY") {
		t.Errorf("GET from a busy server: got %v, want BUSY", err)
	}
	release()
	s.Do("GET", "k")
}

func TestShared(t *testing.T) {
	a, b := redistest.Shared(t), redistest.Shared(t)
	if a.Addr != b.Addr || a.DB() == b.DB() || a.DB() == 0 {
		t.Errorf("got %s database %d and %s database %d, want one address and two databases", a.Addr, a.DB(), b.Addr, b.DB())
	}
	a.Do("SET", "k", "v")
	if got := b.Do("DBSIZE"); got != int64(0) {
		t.Errorf("DBSIZE of the other database: got %v, want 0", got)
	}
	opt, err := redis.ParseURL(a.URL())
	if err != nil || opt.DB != a.DB() {
		t.Errorf("database of %s: got %d, %v, want %d", a.URL(), opt.DB, err, a.DB())
	}
}

// TestKilledBinary runs this test binary again and kills it while a server of
// its own runs.
func TestKilledBinary(t *testing.T) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		s := redistest.Start(t)
		_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(s.PID()) + "\n")
		select {}
	}
	t.Parallel()
	redistest.Require(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBinary$")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(buf[:n]), "pid ")))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	server, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 10*time.Second, "the end of the server", func() bool { return redistest.Gone(server) })
}

// closeIt closes what must close without an error.
func closeIt(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// client returns a client that hides nothing.
func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
