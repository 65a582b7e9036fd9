package breaker_test

import (
	"context"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// A fault is a way for a Redis to be away.
type fault struct {
	name       string
	direct     bool // the clients reach the server without the proxy
	begin, end func(*redistest.Server, *redistest.Proxy)
	stays      bool // too few calls fail for a breaker to open
}

func faults() []fault {
	pass := func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }
	proxied := func(f func(*redistest.Proxy)) func(*redistest.Server, *redistest.Proxy) {
		return func(_ *redistest.Server, p *redistest.Proxy) { f(p) }
	}
	return []fault{
		{
			name: "killed", direct: true,
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
		},
		{
			name:  "suspended",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
		},
		{name: "refusing", begin: proxied((*redistest.Proxy).Refuse), end: pass},
		{name: "packets dropped", begin: proxied((*redistest.Proxy).Swallow), end: pass},
		{name: "slow", begin: proxied(func(p *redistest.Proxy) { p.Delay(200 * time.Millisecond) }), end: pass},
		{name: "failing in part", begin: proxied(func(p *redistest.Proxy) { p.Flaky(0.2) }), end: pass, stays: true},
		{
			name:  "out of memory",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", 1) },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", 0) },
		},
		{
			name:  "read-only",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "127.0.0.1", 1) },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "NO", "ONE") },
		},
		{
			name: "loading", direct: true,
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.RestartLoading(1200 * time.Millisecond) },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { awaitLoaded(s) },
		},
	}
}

// awaitLoaded returns when a server has loaded its data.
func awaitLoaded(s *redistest.Server) {
	for s.Client().Ping(context.Background()).Err() != nil {
		time.Sleep(time.Millisecond)
	}
}

// sameKey charges one bucket with each call.
func sameKey(l *ratelimit.Limit) func(int) []ratelimit.Charge {
	return func(int) []ratelimit.Charge { return []ratelimit.Charge{{Limit: l, Key: []byte("alice"), Cost: 1}} }
}

// ofEach returns a limit of count a second with as much at once.
func ofEach(t testing.TB, count int64) *ratelimit.Limit {
	t.Helper()
	return limitOf(t, "b", ratelimit.Rule{Rate: ratelimit.Rate{Count: count, Window: time.Second}})
}

// A fault of Redis costs no call more than the budget, grants no more than one
// further limit, leaves nothing behind, and is over soon after its end.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(f.name, f.test)
	}
}

const (
	beforeFault = 300 * time.Millisecond
	faultTime   = 700 * time.Millisecond
)

func (f *fault) test(t *testing.T) {
	t.Helper()
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	url := "redis://" + proxy.Addr
	if f.direct {
		url = s.URL()
	}
	before, opened := proxy.Stats().Accepted, int64(0)
	rideOut(t, url, !f.stays,
		func() { before = proxy.Stats().Accepted; f.begin(s, proxy) },
		func() { opened = proxy.Stats().Accepted - before; f.end(s, proxy) })
	live := proxy.Stats().Live
	t.Logf("%d connections opened in the outage, %d open after it", opened, live)
	if opened > 100*fleetSize || live > 10*fleetSize {
		t.Errorf("%d connections were opened in the outage, and %d are open after it; want few", opened, live)
	}
}

// rideOut keeps a fleet under load through an outage, and looks at what became of
// the calls, at what is left and how long it takes to come back.
func rideOut(t *testing.T, url string, opens bool, begin, end func()) {
	t.Helper()
	goroutines := countGoroutines(t)
	fleet, limit := openFleet(t, url), ofEach(t, 50)
	warmUp(t, fleet, limit)
	l := startLoad(fleet, sameKey(limit))
	time.Sleep(beforeFault)
	before, local := goroutines(), localOf(fleet)
	begun := time.Now()
	begin()
	time.Sleep(faultTime)
	during := goroutines()
	for _, b := range fleet {
		if s := b.Status(); opens && s.Shards[0].Trips == 0 {
			t.Errorf("in the outage no breaker opened: %v", s)
		}
	}
	end()
	ended := time.Now()
	recovery := awaitClosed(t, fleet)
	closed := time.Now()
	stalled := l.meter.between(ended, closed)
	all := summarize(l.stop(), begun, closed)
	all.check(t)
	most := bound(limit, closed.Sub(begun))
	t.Logf("%d calls, the worst took %v; %d granted in %v, at most %d may be; %d by the fallback; closed %v after the end; %d goroutines, %d before",
		all.calls, all.worst, all.granted, closed.Sub(begun).Round(time.Millisecond), most, localOf(fleet)-local, recovery, during, before)
	if all.granted > most {
		t.Errorf("%d calls are granted, want at most %d", all.granted, most)
	}
	if localOf(fleet) == local {
		t.Error("the fallback decided nothing: there was no fault")
	}
	if recovery-stalled > longestOpen+poolTime {
		t.Errorf("closed %v after the end, want %v", recovery, longestOpen+poolTime)
	}
	if during > before+60 {
		t.Errorf("%d goroutines run in the outage, and %d did before", during, before)
	}
}

// warmUp makes calls until Redis decides all.
func warmUp(t *testing.T, fleet []*breaker.Backend, l *ratelimit.Limit) {
	t.Helper()
	redistest.Eventually(t, 20*time.Second, "calls that Redis decides", func() bool {
		before := localOf(fleet)
		for _, b := range fleet {
			if _, err := take(b, l); err != nil {
				return false
			}
		}
		return localOf(fleet) == before
	})
}
