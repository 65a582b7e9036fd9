package goredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// documented returns the arguments of the ACL command of docs/redis.md that allows
// a command.
func documented(t *testing.T, allows string) []any {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		fields := strings.Fields(block)
		if i%2 == 0 || len(fields) == 0 || fields[0] != "ACL" || !slices.Contains(fields, allows) {
			continue
		}
		var args []any
		for _, f := range fields {
			args = append(args, f)
		}
		return args
	}
	t.Fatalf("docs/redis.md has no ACL command with %s", allows)
	return nil
}

// allowed returns what ACL commands allow, without the plus.
func allowed(commands ...[]any) []string {
	var names []string
	for _, args := range commands {
		for _, arg := range args {
			if name, ok := strings.CutPrefix(arg.(string), "+"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// denied returns what a server refused to its users.
func denied(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	entries, err := s.Client().Do(t.Context(), "ACL", "LOG").Slice()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprint(s.Addr, ": ", e))
	}
	return all
}

// A clockwork is a clock that a test sets.
type clockwork struct{ at time.Time }

func (c *clockwork) now() time.Time { return c.at }

// useAll has a server do all that decisions may ask for: calls of each algorithm
// that are granted, refused, given back and charged again, at once, later, and
// after the clock stepped back.
func useAll(t *testing.T, b *Backend, clock *clockwork) {
	t.Helper()
	start := time.Now()
	for _, a := range []ratelimit.Algorithm{
		ratelimit.TokenBucket, ratelimit.LeakyBucket, ratelimit.FixedWindow, ratelimit.SlidingWindow, ratelimit.SlidingLog,
	} {
		l, err := ratelimit.NewLimit(a.String(), ratelimit.Rule{Algorithm: a, Rate: ratelimit.Rate{Count: 3, Window: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		key := Key(Text("alice"))
		for _, after := range []time.Duration{0, 4 * time.Second, 20 * time.Second, 15 * time.Second} {
			clock.at = start.Add(after)
			first := took(t, b, l, key)
			last := took(t, b, l, key)
			for range 3 {
				took(t, b, l, key)
			}
			for _, d := range []ratelimit.Delta{
				{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: last.Receipt},
				{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: first.Receipt},
				{Limit: l, Key: key, Cost: 1, Units: 1, Receipt: first.Receipt},
			} {
				if err := b.Adjust(t.Context(), []ratelimit.Delta{d}); err != nil {
					t.Errorf("%v: Adjust: %v", a, err)
				}
			}
		}
		if n, err := b.Reset(t.Context(), key, l); n != 1 || err != nil {
			t.Errorf("%v: Reset: got %d, %v, want 1", a, n, err)
		}
	}
}

// useLive has a server do what it does only under its own clock.
func useLive(t *testing.T, b *Backend) {
	t.Helper()
	l := limit(t, "live", 1e6, 24*time.Hour)
	took(t, b, l, nil)
	var wg sync.WaitGroup
	for range 16 { // calls that go out together keep an expiry
		wg.Go(func() {
			for range 50 {
				if err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Cost: 1}}, make([]ratelimit.Verdict, 1)); err != nil {
					t.Errorf("Take: %v", err)
				}
			}
		})
	}
	wg.Wait()
	redistest.Eventually(t, 5*time.Second, "a heartbeat", func() bool { return b.fleet.known.Load() == 1 })
}

// asked returns the commands that a server was asked for, but for those of the
// probe, which tries all.
func asked(m *redistest.Commands) []string {
	names := map[string]bool{}
	for _, c := range m.Take() {
		if slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasSuffix(arg, ":probe") }) {
			continue
		}
		name := strings.ToLower(c.Args[0])
		if name == "script" || name == "cluster" || name == "sentinel" {
			name += "|" + strings.ToLower(c.Args[1])
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// What docs/redis.md says a user needs is enough, and no more than that.
func TestDocumentedPermissions(t *testing.T) {
	t.Parallel()
	s, book := redistest.Start(t), &logbook{}
	acl := userOf(t, []*redistest.Server{s}, "+evalsha")
	address := "redis://limiter:password@" + s.Addr
	commands := redistest.Monitor(t, s)
	clock := &clockwork{}
	useAll(t, opened(t, address, WithLogger(book.logger()), WithClock(clock.now)), clock)
	live := opened(t, address, WithLogger(book.logger()))
	useLive(t, live)
	live.meet(live.owned.(*redis.Client))
	if err := live.Close(); err != nil { // it says that it leaves
		t.Errorf("Close: %v", err)
	}
	if got, want := asked(commands), allowed(acl...); !slices.Equal(got, want) {
		t.Errorf("the server is asked for\n%v, and docs/redis.md allows\n%v", got, want)
	}
	checkQuiet(t, []*redistest.Server{s}, book)
}

// userOf has a user of docs/redis.md on each server.
func userOf(t *testing.T, servers []*redistest.Server, allow ...string) (acl [][]any) {
	t.Helper()
	for _, a := range allow {
		acl = append(acl, documented(t, a))
	}
	for _, s := range servers {
		for _, args := range acl {
			s.Do(args...)
		}
	}
	return acl
}

// checkQuiet fails the test if a server refused something or there is a warning.
func checkQuiet(t *testing.T, servers []*redistest.Server, book *logbook) {
	t.Helper()
	for _, s := range servers {
		if got := denied(t, s); len(got) > 0 {
			t.Errorf("refused: %v, want nothing", got)
		}
	}
	if got := book.String(); got != "" {
		t.Errorf("log is %q, want nothing", got)
	}
}

func TestDocumentedPermissionsOnACluster(t *testing.T) {
	t.Parallel()
	cluster, book := redistest.StartCluster(t, redistest.Replicas(0)), &logbook{}
	acl := userOf(t, cluster.Nodes, "+evalsha", "+cluster|slots")
	var watched []*redistest.Commands
	for _, s := range cluster.Nodes {
		watched = append(watched, redistest.Monitor(t, s))
	}
	address := "redis+cluster://limiter:password@" + cluster.Addrs()[0]
	clock := &clockwork{}
	useAll(t, opened(t, address, WithLogger(book.logger()), WithClock(clock.now)), clock)
	live := opened(t, address, WithLogger(book.logger()))
	useLive(t, live)
	followMove(t, live, cluster)
	err := live.owned.(*redis.ClusterClient).ForEachMaster(t.Context(), func(_ context.Context, master *redis.Client) error {
		live.meet(master)
		return nil
	})
	if err := errors.Join(err, live.Close()); err != nil {
		t.Errorf("meet all and close: %v", err)
	}
	var got []string
	for _, m := range watched {
		got = append(got, asked(m)...)
	}
	slices.Sort(got)
	// What the test does itself to move a slot is none of the user's.
	got = slices.DeleteFunc(slices.Compact(got), func(name string) bool {
		return strings.HasPrefix(name, "cluster|") && name != "cluster|slots" || strings.HasPrefix(name, "migrate") ||
			strings.HasPrefix(name, "restore") || name == "acl"
	})
	if want := allowed(acl...); !slices.Equal(got, want) {
		t.Errorf("the cluster is asked for\n%v, and docs/redis.md allows\n%v", got, want)
	}
	checkQuiet(t, cluster.Nodes, book)
}

// followMove has decisions, adjustments and resets follow a slot to another master.
func followMove(t *testing.T, b *Backend, cluster *redistest.Cluster) {
	t.Helper()
	l, key := limit(t, "moved", 10, time.Minute), Key(Text("alice"))
	took(t, b, l, key)
	slot := cluster.Slot(keyOf(l, key))
	to := cluster.Nodes[0]
	if cluster.MasterOf(slot) == to {
		to = cluster.Nodes[1]
	}
	move := cluster.StartMove(slot, to)
	move.Keys()
	v := took(t, b, l, key) // ASK
	give := ratelimit.Delta{Limit: l, Key: key, Cost: 1, Units: -1, Receipt: v.Receipt}
	if err := b.Adjust(t.Context(), []ratelimit.Delta{give}); err != nil {
		t.Errorf("Adjust of a slot on the move: %v", err)
	}
	move.Finish()
	took(t, b, l, key) // MOVED
	if n, err := b.Reset(t.Context(), key, l); n != 1 || err != nil {
		t.Errorf("Reset of a slot that moved: got %d, %v, want 1", n, err)
	}
}

// A client with routing policies asks at each redirect for the table of all
// commands, and follows it without.
func TestDocumentedPermissionsOfAClientWithPolicies(t *testing.T) {
	t.Parallel()
	cluster, book := redistest.StartCluster(t, redistest.Replicas(0)), &logbook{}
	userOf(t, cluster.Nodes, "+evalsha", "+cluster|slots")
	for _, s := range cluster.Nodes {
		s.Do("ACL", "SETUSER", "limiter", "+command")
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "limiter", Password: "password"})
	b, err := New(client, WithBudget(time.Second), WithLogger(book.logger()))
	if err != nil {
		t.Fatal(err)
	}
	book.clear() // of what the client's timeouts are warned of
	followMove(t, b, cluster)
	if err := errors.Join(b.Close(), client.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	checkQuiet(t, cluster.Nodes, book)
}

func TestDocumentedPermissionsBehindSentinels(t *testing.T) {
	t.Parallel()
	sentinel, book := redistest.StartSentinel(t), &logbook{}
	userOf(t, sentinel.Servers, "+evalsha")
	userOf(t, sentinel.Sentinels, "+subscribe")
	u, err := url.Parse(sentinel.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("watcher", "password")
	query := u.Query()
	query.Set("username", "limiter")
	query.Set("password", "password")
	u.RawQuery = query.Encode()
	clock := &clockwork{}
	useAll(t, opened(t, u.String(), WithLogger(book.logger()), WithClock(clock.now)), clock)
	live := opened(t, u.String(), WithLogger(book.logger()))
	useLive(t, live)
	if err := live.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	checkQuiet(t, slices.Concat(sentinel.Servers, sentinel.Sentinels), book)
}
