package goredis

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// An answer is what a server said.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ redis.Error = answer("")

func TestWhatMeansThatAMasterIsLost(t *testing.T) {
	// As servers before 7.0 put it.
	nested := answer("ERR Error running script (call to f_1): @user_script:2: @user_script: 2: -READONLY You can't write against a read only replica.")
	for _, test := range []struct {
		err          error
		lost, outage bool
	}{
		{answer("READONLY You can't write against a read only replica."), true, true},
		{nested, true, true},
		{fmt.Errorf("wrapped: %w", answer("READONLY You can't write against a read only replica.")), true, true},
		{answer("CLUSTERDOWN The cluster is down"), true, true},
		{answer("MOVED 1 127.0.0.1:1"), true, true},
		{answer("ASK 1 127.0.0.1:1"), true, true},
		{os.ErrDeadlineExceeded, true, true},
		{errors.New("EOF"), true, true},
		{answer("TRYAGAIN Multiple keys request during rehashing of slot"), false, true},
		{answer("LOADING Redis is loading the dataset in memory"), false, true},
		{answer("OOM command not allowed when used memory > 'maxmemory'."), false, true},
		{answer("WRONGTYPE Operation against a key holding the wrong kind of value"), false, false},
		{answer("NOPERM this user has no permissions to run the 'evalsha' command"), false, false},
	} {
		if got := isLost(test.err); got != test.lost {
			t.Errorf("isLost(%v) = %v, want %v", test.err, got, test.lost)
		}
		if err := classify(test.err); !errors.Is(err, ratelimit.ErrUnavailable) || errors.Is(err, ratelimit.ErrBackendBug) == test.outage {
			t.Errorf("classify(%v) = %v, want an outage: %v", test.err, err, test.outage)
		}
	}
	if isLost(nil) {
		t.Error("isLost(nil) = true, want false")
	}
}

// A master that was made a replica says READONLY where it does not know who has
// its slots now: the cluster is asked at once, not with the next look of its own.
func TestReadOnlyMasterIsReplaced(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	m := &slotMap{}
	m.set(old)
	b, _ := drawn(t, m)
	l := limit(t, "b", 10, time.Hour)
	took(t, b, l, nil)
	old.Do("REPLICAOF", "127.0.0.1", 1)
	m.set(next)
	start := time.Now()
	redistest.Eventually(t, 10*time.Second, "a decision of the new master", func() bool {
		return b.Take(t.Context(), []ratelimit.Charge{{Limit: l, Cost: 1}}, make([]ratelimit.Verdict, 1)) == nil
	})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("decided %v after the master became a replica, want that at once", took)
	}
}
