package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	start := time.Now()
	s := redistest.StartSentinel(t, redistest.Password("secret"))
	t.Logf("a master, a replica and three sentinels in %v", time.Since(start).Round(time.Millisecond))

	opt, err := redis.ParseFailoverURL(s.URL())
	if err != nil || len(opt.SentinelAddrs) != 3 {
		t.Fatalf("sentinels of %s: got %v, %v, want 3", s.URL(), opt, err)
	}
	rdb := redis.NewFailoverClient(opt)
	defer closeIt(t, rdb)
	written := func() bool { return rdb.Set(t.Context(), "k", "v", 0).Err() == nil }
	redistest.Eventually(t, 5*time.Second, "a SET", written)

	first := s.Master()
	if first != s.Servers[0] || first.Do("GET", "k") != "v" {
		t.Errorf("master: got %s, want %s, with the key", first.Addr, s.Servers[0].Addr)
	}
	start = time.Now()
	second := s.Failover()
	t.Logf("failed over in %v", time.Since(start).Round(time.Millisecond))
	if second == first || second.Do("GET", "k") != "v" || s.Master() != second {
		t.Errorf("master after a failover: got %s, want another than %s, with the key", second.Addr, first.Addr)
	}
	redistest.Eventually(t, 5*time.Second, "a SET after the failover", written)

	start = time.Now()
	second.Kill()
	if third := s.AwaitFailover(second); third != first {
		t.Errorf("master after the second was killed: got %s, want %s", third.Addr, first.Addr)
	}
	t.Logf("failed over after a kill in %v", time.Since(start).Round(time.Millisecond))
	redistest.Eventually(t, 5*time.Second, "a SET after the kill", written)
	second.Restart()
	s.Settle()
}
