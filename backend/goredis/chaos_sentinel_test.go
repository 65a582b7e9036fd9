package goredis_test

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestChaosOnSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	s := redistest.StartSentinel(t)
	w, j := chaosWork(), journal{}
	w.Sentinels = s.Addrs()
	stopFlushing := flushScripts(s.Servers...)
	f := startFleet(t, 2, w)
	time.Sleep(between)
	j.freeze(t, s.Master())
	s.Failover()
	time.Sleep(2 * between)
	old := s.Master()
	j.freeze(t, old)
	old.Kill()
	s.AwaitFailover(old)
	time.Sleep(2 * between)
	stopFlushing()
	finishChaos(t, f, w, j, 2, s.Master())
}
