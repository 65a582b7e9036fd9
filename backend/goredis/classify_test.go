package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// The classes of errors.
const (
	isDecided = "a decision"
	isOutage  = "an outage"
	isBug     = "a bug"
)

func classOf(err error) string {
	switch {
	case err == nil:
		return isDecided
	case errors.Is(err, ratelimit.ErrBackendBug) && errors.Is(err, ratelimit.ErrUnavailable):
		return isBug
	case errors.Is(err, ratelimit.ErrUnavailable):
		return isOutage
	}
	return fmt.Sprintf("neither (%v)", err)
}

// shortBudget is the decision's; slack is what a busy machine adds.
const (
	shortBudget = 150 * time.Millisecond
	slack       = 500 * time.Millisecond
)

// A patient is a backend whose server something befalls.
type patient struct {
	t       *testing.T
	backend *Backend
	limit   *ratelimit.Limit
	key     []byte
}

func newPatient(t *testing.T, url string, opts ...Option) *patient {
	t.Helper()
	p := &patient{
		t: t, backend: opened(t, url, append([]Option{WithBudget(shortBudget)}, opts...)...),
		limit: limit(t, "b", 100, 24*time.Hour), key: Key(Text("alice")),
	}
	return p
}

// take makes a call of one unit, which has to end in time.
func (p *patient) take() error {
	p.t.Helper()
	start := time.Now()
	err := p.backend.Take(p.t.Context(), []ratelimit.Charge{{Limit: p.limit, Key: p.key, Cost: 1}}, make([]ratelimit.Verdict, 1))
	if took := time.Since(start); took > shortBudget+slack {
		p.t.Errorf("a call took %v, want about the budget of %v", took, shortBudget)
	}
	return err
}

// settle makes calls until one is decided, and returns how much is used then.
func (p *patient) settle() int64 {
	p.t.Helper()
	verdicts := make([]ratelimit.Verdict, 1)
	redistest.Eventually(p.t, 10*time.Second, "a decision", func() bool {
		return p.backend.Take(p.t.Context(), []ratelimit.Charge{{Limit: p.limit, Key: p.key}}, verdicts) == nil
	})
	return 100 - verdicts[0].Remaining
}

// want takes and checks the class of what comes, and what its text has.
func (p *patient) want(class, text string) {
	p.t.Helper()
	err := p.take()
	if got := classOf(err); got != class || (err != nil && !strings.Contains(err.Error(), text)) {
		p.t.Errorf("got %s: %v; want %s with %q", got, err, class, text)
	}
}

func TestNoScript(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	for range 3 {
		s.Do("SCRIPT", "FLUSH")
		p.want(isDecided, "")
	}
	if used := p.settle(); used != 3 {
		t.Errorf("%d used after 3 calls", used)
	}
	s.Restart()
	if used := p.settle(); used != 0 {
		t.Errorf("%d used after a restart, want none", used)
	}
	p.want(isDecided, "")
	if used := p.settle(); used != 1 {
		t.Errorf("%d used after 1 call", used)
	}
}

func TestForbiddenCommands(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "limiter", "on", ">secret", "~rl:*", "+@all", "-script")
	p := newPatient(t, "redis://limiter:secret@"+s.Addr, WithLogger((&logbook{}).logger()))
	p.settle() // SCRIPT is not needed
	s.Do("SCRIPT", "FLUSH")
	p.want(isDecided, "")

	s.Do("ACL", "SETUSER", "limiter", "-evalsha")
	p.want(isBug, "NOPERM")
	s.Do("ACL", "SETUSER", "limiter", "+evalsha", "-set")
	p.key = Key(Text("new"))
	p.want(isBug, "can't run this command")
	s.Do("ACL", "SETUSER", "limiter", "+set", "resetkeys", "~other:*")
	p.want(isBug, "NOPERM")
	s.Do("ACL", "SETUSER", "limiter", "resetkeys", "~rl:*")
	if used := p.settle(); used != 0 {
		t.Errorf("%d used after calls that failed, want none", used)
	}
}

func TestPasswords(t *testing.T) {
	s := redistest.Start(t, redistest.Password("right"))
	newPatient(t, "redis://"+s.Addr).want(isBug, "NOAUTH")
	newPatient(t, "redis://:wrong@"+s.Addr).want(isBug, "WRONGPASS")
	newPatient(t, "redis://:right@"+s.Addr).settle()
}

func TestReadOnlyReplica(t *testing.T) {
	s := redistest.Start(t, redistest.Config("replicaof 127.0.0.1 1"))
	newPatient(t, s.URL(), WithLogger((&logbook{}).logger())).want(isOutage, "READONLY")
}

func TestLoading(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	s.RestartLoading(time.Second)
	redistest.Eventually(t, 5*time.Second, "LOADING", func() bool {
		err := p.take()
		return classOf(err) == isOutage && strings.Contains(err.Error(), "LOADING")
	})
	p.settle()
}

func TestBusy(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	release := s.Busy()
	p.want(isOutage, "BUSY")
	release()
	if used := p.settle(); used != 0 {
		t.Errorf("%d used after a call that failed, want none", used)
	}
}

// A full Redis grants nothing and writes nothing, not even in part.
func TestOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	s.Do("CONFIG", "SET", "maxmemory", 1)
	keys := s.Do("DBSIZE")
	charges := []ratelimit.Charge{
		{Limit: p.limit, Key: p.key, Cost: 1},
		{Limit: limit(t, "other", 100, time.Hour), Key: p.key, Cost: 1},
	}
	err := p.backend.Take(t.Context(), charges, make([]ratelimit.Verdict, 2))
	if classOf(err) != isOutage || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("got %v, want an outage with OOM", err)
	}
	if got := s.Do("DBSIZE"); got != keys {
		t.Errorf("%v keys, want %v as before", got, keys)
	}
	s.Do("CONFIG", "SET", "maxmemory", 0)
	if used := p.settle(); used != 0 {
		t.Errorf("%d used after a call that failed, want none", used)
	}
}

// What is not ours under our key fails the calls that need it, those alone, and
// is left as it is.
func TestForeignKeys(t *testing.T) {
	s := redistest.Start(t)
	b := opened(t, s.URL())
	limits := map[string]*ratelimit.Limit{"string": limit(t, "b", 100, time.Hour)}
	var err error
	limits["list"], err = ratelimit.NewLimit("b", ratelimit.Rule{
		Algorithm: ratelimit.SlidingLog, Rate: ratelimit.Rate{Count: 100, Window: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		holds string
		state string // what the limit keeps
		fill  func(key string) []any
		read  func(key string) []any
	}{
		{"a list", "string", func(k string) []any { return []any{"RPUSH", k, "x"} }, func(k string) []any { return []any{"LRANGE", k, 0, -1} }},
		{"a hash", "string", func(k string) []any { return []any{"HSET", k, "f", "x"} }, func(k string) []any { return []any{"HGET", k, "f"} }},
		{"a longer string", "string", func(k string) []any { return []any{"SET", k, strings.Repeat("x", 99)} }, func(k string) []any { return []any{"GET", k} }},
		{"an empty string", "string", func(k string) []any { return []any{"SET", k, ""} }, func(k string) []any { return []any{"GET", k} }},
		{"a string", "list", func(k string) []any { return []any{"SET", k, "x"} }, func(k string) []any { return []any{"GET", k} }},
		{"another's list", "list", func(k string) []any { return []any{"RPUSH", k, "x"} }, func(k string) []any { return []any{"LRANGE", k, 0, -1} }},
		{"a set", "list", func(k string) []any { return []any{"SADD", k, "x"} }, func(k string) []any { return []any{"SMEMBERS", k} }},
	} {
		l, key := limits[test.state], Key(Text(test.holds+" for a "+test.state))
		name := keyOf(l, key)
		s.Do(test.fill(name)...)
		before := fmt.Sprint(s.Do(test.read(name)...))
		err := b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Key: key, Cost: 1}}, make([]ratelimit.Verdict, 1))
		if classOf(err) != isBug || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: got %v, want a bug with WRONGTYPE", test.holds, err)
		}
		// In one batch with others that is the only one to fail.
		mine, yours := newRequest(), newRequest()
		mine.add(name, &ratelimit.Charge{Limit: l, Key: key, Cost: 1})
		good := ratelimit.Charge{Limit: l, Key: Key(Text("good")), Cost: 1}
		yours.add(keyOf(l, good.Key), &good)
		b.topology.(*single).decide([]*request{mine, yours})
		if classOf(mine.err) != isBug || yours.err != nil || !yours.granted {
			t.Errorf("%s: in a batch: got %v, and %v for the other, want a bug and none", test.holds, mine.err, yours.err)
		}
		if after := fmt.Sprint(s.Do(test.read(name)...)); after != before {
			t.Errorf("%s: holds %s afterwards, want %s", test.holds, after, before)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	s.Kill()
	_ = p.take() // on the connection that there was
	p.want(isOutage, "connection refused")
	s.Restart()
	p.settle()
}

func TestSilentServer(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL())
	p.settle()
	s.Pause()
	for range 5 {
		p.want(isOutage, errLate.Error())
	}
	s.Resume()
	if used := p.settle(); used > 5 {
		t.Errorf("%d used after 5 calls, want at most one a call", used)
	}
}

// A server that never said a word, as behind a port that forwards to nowhere.
func TestServerThatNeverSpoke(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p := newPatient(t, "redis://"+listener.Addr().String())
	for range 3 {
		p.want(isOutage, errLate.Error())
	}
}

func TestPoolExhausted(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL()+"?pool_size=1&pool_timeout=20ms", WithLogger((&logbook{}).logger()))
	conn := p.backend.owned.(*redis.Client).Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil { // holds the only connection
		t.Fatal(err)
	}
	p.want(isOutage, "pool timeout")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	p.settle()
}

func TestQueueFull(t *testing.T) {
	s := redistest.Start(t)
	p := newPatient(t, s.URL(), WithQueue(1))
	p.settle()
	s.Pause()
	results := make(chan error, 10)
	for range cap(results) {
		go func() {
			charges := []ratelimit.Charge{{Limit: p.limit, Key: p.key, Cost: 1}}
			results <- p.backend.Take(context.Background(), charges, make([]ratelimit.Verdict, 1))
		}()
	}
	full := 0
	for range cap(results) {
		err := <-results
		if classOf(err) != isOutage {
			t.Errorf("got %v, want an outage", err)
		}
		if errors.Is(err, ErrQueueFull) {
			full++
		}
	}
	if full == 0 {
		t.Error("no call was told that the queue is full")
	}
	s.Resume()
	p.settle()
}

func TestMaxClients(t *testing.T) {
	s := redistest.Start(t)
	s.Do("CONFIG", "SET", "maxclients", 1) // the test's own client
	p := newPatient(t, s.URL())
	p.want(isOutage, "")
	s.Do("CONFIG", "SET", "maxclients", 100)
	p.settle()
}

func TestClusterDown(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Replicas(0), redistest.Config("cluster-node-timeout 300"))
	p := newPatient(t, cluster.URL())
	p.settle()
	own := cluster.MasterOf(cluster.Slot(keyOf(p.limit, p.key)))
	for _, s := range cluster.Masters() {
		if s != own {
			s.Kill()
			break
		}
	}
	redistest.Eventually(t, 10*time.Second, "CLUSTERDOWN", func() bool {
		err := p.take()
		return classOf(err) == isOutage && strings.Contains(err.Error(), "CLUSTERDOWN")
	})
}

// While a slot moves, decisions go on: where its keys are, and to the new master
// when they have gone.
func TestSlotMoves(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Replicas(0))
	p := newPatient(t, cluster.URL())
	p.settle()
	second := limit(t, "second", 100, 24*time.Hour)
	both := func() error {
		charges := []ratelimit.Charge{{Limit: p.limit, Key: p.key, Cost: 1}, {Limit: second, Key: p.key, Cost: 1}}
		return p.backend.Take(t.Context(), charges, make([]ratelimit.Verdict, 2))
	}
	if err := both(); err != nil {
		t.Fatal(err)
	}
	slot := cluster.Slot(keyOf(p.limit, p.key))
	from := cluster.MasterOf(slot)
	to := cluster.Masters()[0]
	if to == from {
		to = cluster.Masters()[1]
	}
	move := cluster.StartMove(slot, to)
	p.want(isDecided, "") // it is still there
	move.Keys(keyOf(p.limit, p.key))
	p.want(isDecided, "") // ASK
	if err := both(); classOf(err) != isOutage || !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("with one of two buckets on each side: got %v, want an outage with TRYAGAIN", err)
	}
	move.Keys()
	move.Finish()
	p.want(isDecided, "") // MOVED
	if used := p.settle(); used != 4 {
		t.Errorf("%d used after 4 calls that were decided", used)
	}
}
