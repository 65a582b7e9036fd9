package goredis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"
)

// met returns what is logged when a server is met.
func met(t *testing.T, b *Backend, client *redis.Client, book *logbook) string {
	t.Helper()
	b.meet(client)
	return book.String()
}

func TestMeetingWarns(t *testing.T) {
	for _, test := range []struct {
		name   string
		config []string
		want   string // "" for no warning
	}{
		{"as it should be", nil, ""},
		{"full, but nothing is dropped", []string{"maxmemory 100mb", "maxmemory-policy noeviction"}, ""},
		{"drops, but is never full", []string{"maxmemory 0", "maxmemory-policy allkeys-lru"}, ""},
		{"drops anything", []string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}, "maxmemory-policy=allkeys-lru"},
		{"drops what expires", []string{"maxmemory 100mb", "maxmemory-policy volatile-ttl"}, "set maxmemory-policy to noeviction"},
		{"is a replica", []string{"replicaof 127.0.0.1 1"}, "role=slave"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, book := redistest.Start(t, redistest.Config(test.config...)), &logbook{}
			b := opened(t, s.URL(), WithLogger(book.logger()))
			got := met(t, b, s.Client(), book)
			if !strings.Contains(got, test.want) || (test.want == "" && got != "") {
				t.Errorf("log is %q, want %q in it", got, test.want)
			}
			if keys := s.Do("DBSIZE"); keys != int64(0) {
				t.Errorf("%v keys are left, want none", keys)
			}
		})
	}
}

func TestMeetingNamesForbiddenCommands(t *testing.T) {
	s, book := redistest.Start(t), &logbook{}
	s.Do("ACL", "SETUSER", "limiter", "on", ">secret", "~rl:*", "+@all", "-setrange", "-lset", "-info", "-config")
	b := opened(t, "redis://limiter:secret@"+s.Addr, WithLogger(book.logger()))
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "limiter", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	got := met(t, b, client, book)
	if !strings.Contains(got, `commands="setrange lset"`) || !strings.Contains(got, "+setrange +lset") {
		t.Errorf("log is %q, want both commands, and how to allow them", got)
	}
	s.Do("ACL", "SETUSER", "limiter", "-eval")
	if got := met(t, b, client, book); !strings.Contains(got, "commands=eval") {
		t.Errorf("log is %q, want eval", got)
	}
}

// The probe tries what decisions use, whichever scripts there are.
func TestProbeTriesWhatScriptsUse(t *testing.T) {
	scripts, err := filepath.Glob("lua/*.lua")
	if err != nil || len(scripts) < 3 {
		t.Fatalf("got scripts %v, %v", scripts, err)
	}
	for _, path := range scripts {
		if path == "lua/probe.lua" || path == "lua/instances.lua" {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(probeSource, "try('"+m[1]+"'") {
				t.Errorf("probe.lua does not try %s, which %s uses", m[1], path)
			}
		}
	}
}

// The first decision has the server met, without waiting for it: afterwards it
// has the scripts, and the connections are there.
func TestFirstDecisionWarmsUp(t *testing.T) {
	s, book := redistest.Start(t, redistest.Config("maxmemory 100mb", "maxmemory-policy allkeys-lru")), &logbook{}
	b := opened(t, s.URL(), WithLogger(book.logger()))
	took(t, b, limit(t, "b", 10, time.Minute), nil)
	redistest.Eventually(t, 5*time.Second, "a warning", func() bool { return strings.Contains(book.String(), "allkeys-lru") })
	for _, script := range []*script{takeScript, adjustScript, instancesScript} {
		if got := s.Do("SCRIPT", "EXISTS", script.hash); fmt.Sprint(got) != "[1]" {
			t.Errorf("the server has script %s: %v, want it", script.hash, got)
		}
	}
	if idle := b.owned.PoolStats().IdleConns; idle < flightsPerServer {
		t.Errorf("%d connections are idle, want %d or more", idle, flightsPerServer)
	}
	took(t, b, limit(t, "b", 10, time.Minute), nil)
	if n := strings.Count(book.String(), "allkeys-lru"); n != 1 {
		t.Errorf("warned %d times, want once", n)
	}
}

func TestGreeting(t *testing.T) {
	n := 0
	g := greeting{greet: func(*server) { n++ }}
	g.answered(nil)
	g.answered(nil)
	if n != 1 {
		t.Errorf("met %d times, want once", n)
	}
	g.again() // at once: scripts are flushed all the time
	g.answered(nil)
	if n != 1 {
		t.Errorf("met %d times within %v, want once", n, meetAgainAfter)
	}
	g.last.Add(-int64(meetAgainAfter))
	g.again()
	g.answered(nil)
	if n != 2 {
		t.Errorf("met %d times, want twice: scripts were missing after a while", n)
	}
}

func TestMeetingOnAClusterHasAKeyOfEachMaster(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Replicas(0))
	b := opened(t, "redis+cluster://"+cluster.Addrs()[0])
	took(t, b, limit(t, "b", 10, time.Minute), nil)
	client := b.owned.(*redis.ClusterClient)
	var mu sync.Mutex
	var masters []string
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		key, ok := b.topology.keyOf(ctx, master, "rl:{~probe", "}:probe")
		if missing := forbidden(ctx, master, key); len(missing) > 0 {
			t.Errorf("%s: forbids %v, want nothing", master.Options().Addr, missing)
		}
		if got := cluster.MasterOf(cluster.Slot(key)).Addr; !ok || got != master.Options().Addr {
			t.Errorf("key %s is of %s, want %s", key, got, master.Options().Addr)
		}
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, master.Options().Addr)
		return nil
	})
	if err != nil || len(slices.Compact(masters)) != 3 {
		t.Errorf("met %v, %v, want three masters", masters, err)
	}
}

func TestMeetingComparesClocks(t *testing.T) {
	s := redistest.Shared(t)
	for _, test := range []struct {
		off  time.Duration
		want bool
	}{{0, false}, {900 * time.Millisecond, false}, {-3 * time.Second, true}, {time.Hour, true}} {
		found := inspect(t.Context(), s.Client(), "", func() time.Time { return time.Now().Add(test.off) })
		if got := len(found) > 0 && found[0].key == "apart"; got != test.want {
			t.Errorf("a clock that is off by %v: got warnings %+v, want one: %v", test.off, found, test.want)
		}
	}
}

// On a cluster each master is met, with a key of its own for the probe.
func TestMeetingOnACluster(t *testing.T) {
	cluster, book := redistest.StartCluster(t, redistest.Replicas(0)), &logbook{}
	cluster.Nodes[1].Do("ACL", "SETUSER", "default", "-lset")
	b := opened(t, cluster.URL(), WithLogger(book.logger()))
	took(t, b, limit(t, "b", 10, time.Minute), nil)
	err := b.owned.(*redis.ClusterClient).ForEachMaster(t.Context(), func(_ context.Context, master *redis.Client) error {
		b.meet(master)
		return nil
	})
	if got := book.String(); err != nil || !strings.Contains(got, "commands=lset") || strings.Contains(got, "server="+cluster.Nodes[0].Addr) {
		t.Errorf("error %v, log %q; want lset of %s named", err, got, cluster.Nodes[1].Addr)
	}
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.1": true, "6.2.0": false, "7.0.15": false, "10.0": false, "": false, "unstable": false,
	} {
		if got := older(version, 6, 2); got != want {
			t.Errorf("older(%q, 6, 2): got %v, want %v", version, got, want)
		}
	}
}
