package goredis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestInstancesAreRemembered(t *testing.T) {
	const life = 15 * time.Second
	away := errors.New("away")
	start := time.Unix(1e9, 0)
	f := &fleet{}
	for _, step := range []struct {
		at   time.Duration
		n    int
		err  error
		want int64
	}{
		{0, 3, nil, 3},
		{5 * time.Second, 5, nil, 5},
		{10 * time.Second, 4, nil, 5},  // others may be about to come
		{15 * time.Second, 4, nil, 5},  // Redis may have lost its memory
		{20 * time.Second, 4, nil, 4},  // all had time to be heard again
		{25 * time.Second, 0, away, 4}, // the last known number
		{90 * time.Second, 0, away, 4},
		{95 * time.Second, 1, nil, 4}, // the others are about to come back too
		{100 * time.Second, 3, nil, 4},
		{110 * time.Second, 3, nil, 3},
		{115 * time.Second, 1, nil, 3}, // a restart that no heartbeat met
		{120 * time.Second, 3, nil, 3},
	} {
		f.note(step.n, step.err, start.Add(step.at), life)
		if got := f.known.Load(); got != step.want {
			t.Errorf("after %v: got %d, want %d", step.at, got, step.want)
		}
	}
}

// often makes heartbeats frequent.
func often() Option {
	return optionFunc(func(c *config) error {
		c.heartbeat = 20 * time.Millisecond
		return nil
	})
}

func testInstances(t *testing.T, url string) {
	t.Helper()
	l := limit(t, "b", 10, time.Minute)
	var fleet []*Backend
	for range 3 {
		fleet = append(fleet, opened(t, url, often()))
	}
	other := opened(t, url, often(), WithNamespace("other"))
	if n := fleet[0].Instances(); n != 1 {
		t.Errorf("before the first decision: got %d instances, want 1", n)
	}
	for _, b := range append(fleet, other) {
		took(t, b, l, nil)
	}
	await := func(b *Backend, want int) {
		t.Helper()
		redistest.Eventually(t, 5*time.Second, fmt.Sprint(want, " instances"), func() bool { return b.Instances() == want })
	}
	await(fleet[0], 3)
	await(fleet[2], 3)
	await(other, 1)
	if err := fleet[1].Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	await(fleet[0], 2)
}

func TestInstances(t *testing.T)          { testInstances(t, redistest.Shared(t).URL()) }
func TestInstancesOnCluster(t *testing.T) { testInstances(t, redistest.StartCluster(t).URL()) }

// An instance that died without a word is forgotten.
func TestInstancesThatDie(t *testing.T) {
	b := opened(t, redistest.Shared(t).URL(), often())
	server, _, err := b.topology.route(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	server.greeting.done.Store(true) // else this one would be heard besides
	for i, id := range []string{"this", "dead"} {
		if n, err := b.beat(id, true); n != i+1 || err != nil {
			t.Fatalf("heartbeat of %s: got %d, %v, want %d", id, n, err, i+1)
		}
	}
	redistest.Eventually(t, 5*time.Second, "it is forgotten", func() bool {
		n, err := b.beat("this", true)
		return n == 1 && err == nil
	})
}

// While Redis is away the number stays; in the end nothing is left there.
func TestInstancesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := opened(t, s.URL(), often(), WithBudget(100*time.Millisecond))
	redistest.Eventually(t, 5*time.Second, "a decision", func() bool {
		charges := []ratelimit.Charge{{Limit: limit(t, "b", 10, time.Second), Cost: 1}}
		return b.Take(t.Context(), charges, make([]ratelimit.Verdict, 1)) == nil
	})
	redistest.Eventually(t, 5*time.Second, "two instances", func() bool {
		_, _ = b.beat("other", true) // while the machine is busy it may be late
		return b.Instances() == 2
	})
	s.Pause()
	if _, err := b.beat("other", true); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("a heartbeat to a silent server: got %v, want an outage", err)
	}
	if n := b.Instances(); n != 2 {
		t.Errorf("while Redis is away: got %d instances, want the last number, 2", n)
	}
	s.Resume()
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	redistest.Eventually(t, 5*time.Second, "an empty server", func() bool { return s.Do("DBSIZE") == int64(0) })
}

func TestInstancesAfterTheClockStepsBack(t *testing.T) {
	s := redistest.Start(t)
	b := opened(t, s.URL())
	s.Do("ZADD", "rl:instances", time.Now().Add(time.Hour).UnixMilli(), "from the future")
	if n, err := b.beat("this", true); n != 1 || err != nil {
		t.Errorf("got %d, %v, want 1", n, err)
	}
}
