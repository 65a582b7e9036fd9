package faults

import (
	"time"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// A fault is a way for Redis to be away. Its name is what -run matches.
type fault struct {
	name string
	// rig starts Redis, to fail for about a time.
	rig func(tb redistest.TB, away time.Duration) *rig
	// well says that nothing fails.
	well bool
}

// A rig is a Redis, and what makes it fail and be well again.
type rig struct {
	url        string
	begin, end func()
}

// faults are all that are measured.
func faults() []fault {
	return []fault{
		{name: "no fault", well: true, rig: direct(func(*redistest.Server) {}, func(*redistest.Server) {})},
		{name: "no fault, proxied", well: true, rig: proxied(func(*redistest.Proxy) {})},
		{name: "killed", rig: direct((*redistest.Server).Kill, (*redistest.Server).Restart)},
		{name: "stopped", rig: direct((*redistest.Server).Pause, (*redistest.Server).Resume)},
		{name: "refusing", rig: proxied((*redistest.Proxy).Refuse)},
		{name: "packets dropped", rig: proxied((*redistest.Proxy).Swallow)},
		{name: "200 ms late", rig: proxied(func(p *redistest.Proxy) { p.Delay(200 * time.Millisecond) })},
		{name: "20 % failing", rig: proxied(func(p *redistest.Proxy) { p.Flaky(0.2) })},
		{name: "out of memory", rig: direct(
			func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", 1) },
			func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", 0) })},
		{name: "read-only", rig: direct(
			func(s *redistest.Server) { s.Do("REPLICAOF", "127.0.0.1", 1) },
			func(s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") })},
		{name: "loading", rig: loading},
		{name: "failover by Sentinel", rig: failover},
		{name: "a master of three dead", rig: deadMaster},
	}
}

// direct is a server that the client reaches by itself.
func direct(begin, end func(*redistest.Server)) func(redistest.TB, time.Duration) *rig {
	return func(tb redistest.TB, _ time.Duration) *rig {
		s := redistest.Start(tb)
		return &rig{url: s.URL(), begin: func() { begin(s) }, end: func() { end(s) }}
	}
}

// proxied is a server behind a network that fails.
func proxied(begin func(*redistest.Proxy)) func(redistest.TB, time.Duration) *rig {
	return func(tb redistest.TB, _ time.Duration) *rig {
		p := redistest.NewProxy(tb, redistest.Start(tb).Addr)
		return &rig{url: "redis://" + p.Addr, begin: func() { begin(p) }, end: p.Pass}
	}
}

// loading is a server that is started again and takes its time to load its data:
// as long for each key of a user as for each of the 1,000 that are put there for it.
func loading(tb redistest.TB, away time.Duration) *rig {
	s := redistest.Start(tb)
	return &rig{url: s.URL(), begin: func() { s.RestartLoading(away * 1000 / (1000 + users)) }, end: func() {}}
}

// failover is a master that dies, and is replaced.
func failover(tb redistest.TB, _ time.Duration) *rig {
	s := redistest.StartSentinel(tb)
	old := s.Master()
	return &rig{url: s.URL(), begin: old.Kill, end: func() {
		for s.Master() == old {
			time.Sleep(lookEvery)
		}
	}}
}

// deadMaster is a cluster of three masters of which one is killed and started
// again. It serves nothing for two seconds then.
func deadMaster(tb redistest.TB, _ time.Duration) *rig {
	c := redistest.StartCluster(tb, redistest.Replicas(0),
		redistest.Config("cluster-node-timeout 60000", "cluster-require-full-coverage no"))
	dead := c.Masters()[0]
	return &rig{url: c.URL(), begin: dead.Kill, end: dead.Restart}
}
