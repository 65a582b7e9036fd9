package goredis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// Each call of these fleets charges a SLIDING_LOG of its own too, by the same
// script: the entries of that log are the charges of the call.
func chaosWork() workload {
	return workload{Goroutines: 16, Budget: 50 * time.Millisecond, Rate: 500, Burst: 50, Pause: 2 * time.Millisecond, Mark: true}
}

// A journal is what was charged, by call: entries that a server has lost stay in
// it, and one that two servers have is one.
type journal map[string]map[string]bool

// collect adds what a server holds.
func (j journal) collect(t *testing.T, s *redistest.Server) {
	t.Helper()
	ctx, client := context.Background(), s.Client()
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, "*:mark-*", 5000).Result()
		if err != nil {
			t.Fatal(err)
		}
		logs := make([]*redis.StringSliceCmd, len(keys))
		_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				logs[i] = p.LRange(ctx, key, 1, -1) // after the head
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			if j[key] == nil {
				j[key] = map[string]bool{}
			}
			for _, entry := range logs[i].Val() {
				j[key][entry] = true
			}
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}

// freeze collects what a server holds, which stays all until the server goes.
func (j journal) freeze(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do("CLIENT", "PAUSE", 5000, "WRITE")
	j.collect(t, s)
}

// check fails the test if a call was charged twice, or if less was charged than
// granted.
func (j journal) check(t *testing.T, granted int) {
	t.Helper()
	once := 0
	for key, entries := range j {
		if len(entries) > 1 {
			t.Errorf("%s was charged %d times, want once", key, len(entries))
		}
		if len(entries) == 1 {
			once++
		}
	}
	if once < granted {
		t.Errorf("%d calls were charged and %d granted", once, granted)
	}
	t.Logf("%d calls were charged, each once", once)
}

// flushScripts flushes the scripts of servers every 100ms until the function
// that it returns is called.
func flushScripts(servers ...*redistest.Server) (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		clients := make([]*redis.Client, len(servers))
		for i, s := range servers {
			clients[i] = redis.NewClient(&redis.Options{Addr: s.Addr, DialerRetries: 1, MaintNotificationsConfig: quietly(), DisableIdentity: true})
		}
		defer func() {
			for _, c := range clients {
				_ = c.Close() // its server may be down
			}
		}()
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ended:
				tick.Stop()
				return
			case <-tick.C:
				for _, c := range clients {
					ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
					_ = c.ScriptFlush(ctx).Err() // the server may be down
					cancel()
				}
			}
		}
	}()
	return func() {
		close(ended)
		<-over
	}
}

// finishChaos ends a fleet that went through trouble.
func finishChaos(t *testing.T, f *fleet, w workload, j journal, losses int64, servers ...*redistest.Server) {
	t.Helper()
	got := f.stop()
	for _, s := range servers {
		j.collect(t, s)
	}
	j.check(t, len(got.Granted))
	bound := got.bound(w, losses)
	t.Logf("granted %d in %v by Redis's clock, at most %.1f may be granted with %d losses of state; refused %d; worst decision %v; nothing was decided for %v, and at the end for %v",
		len(got.Granted), got.elapsed(), bound, losses, got.Refused, got.Worst, got.Gap, got.Idle)
	for text, n := range got.Away {
		t.Logf("%6d × %s", n, strings.TrimSpace(text))
	}
	if granted := float64(len(got.Granted)); granted > bound {
		t.Errorf("granted %.0f, want at most %.1f", granted, bound)
	}
	// A thread that the system holds up hinders one caller, and no meter sees it.
	if got.Late > got.Calls/1000 || got.Worst > time.Second {
		t.Errorf("%d of %d decisions took more than %v, and one %v; want hardly any", got.Late, got.Calls, longestDecision, got.Worst)
	}
	if got.Idle > between {
		t.Errorf("nothing was decided in the last %v: the calls do not come through again", got.Idle)
	}
}

// between is the time that calls are let run between troubles.
const between = 400 * time.Millisecond

func TestChaosOnServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	s := redistest.Start(t)
	w, j := chaosWork(), journal{}
	w.Addr = s.Addr
	stopFlushing := flushScripts(s)
	f := startFleet(t, 2, w)
	time.Sleep(between)
	s.Do("CLIENT", "PAUSE", 150)
	time.Sleep(between)
	for range 2 {
		j.freeze(t, s)
		s.Kill()
		time.Sleep(between / 2)
		s.Restart()
		time.Sleep(between)
	}
	s.Pause()
	time.Sleep(between / 2)
	s.Resume()
	time.Sleep(2 * between)
	stopFlushing()
	finishChaos(t, f, w, j, 2, s)
}

func TestChaosOnCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	c := redistest.StartCluster(t)
	w, j := chaosWork(), journal{}
	w.Cluster = c.Addrs()
	slot := c.Slot("{!k}")
	stopFlushing := flushScripts(c.Nodes...)
	f := startFleet(t, 2, w)
	time.Sleep(between)
	home := c.MasterOf(slot)
	for _, s := range c.Masters() {
		if s != home {
			c.MoveSlot(slot, s)
			time.Sleep(between)
			break
		}
	}
	c.Promote(c.ReplicasOf(c.MasterOf(slot))[0])
	time.Sleep(between)
	c.MasterOf(slot).Do("CLIENT", "PAUSE", 150)
	time.Sleep(between)
	old := c.MasterOf(slot)
	replica := c.ReplicasOf(old)[0]
	j.freeze(t, old)
	old.Kill()
	c.Promote(replica)
	time.Sleep(2 * between)
	stopFlushing()
	finishChaos(t, f, w, j, 1, c.MasterOf(slot))
}
