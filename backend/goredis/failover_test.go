package goredis_test

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// awaitDecision asks until a call is decided, and returns how long it took.
func awaitDecision(t *testing.T, b ratelimit.Backend, charges ...ratelimit.Charge) time.Duration {
	t.Helper()
	start, verdicts := time.Now(), make([]ratelimit.Verdict, len(charges))
	for {
		err := b.Take(t.Context(), charges, verdicts)
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("nothing is decided: %v", err)
		}
		time.Sleep(time.Millisecond) // as calls come
	}
}

// A client of one master would never learn that another has its slots.
func TestClusterFollowsANewMaster(t *testing.T) {
	c := redistest.StartCluster(t)
	b, limit := open(t, dialCluster(t, c.Addrs()), goredis.WithBudget(50*time.Millisecond)), burstOf(t, "b", 1, 1000)
	slot := c.Slot("{!k}")
	awaitDecision(t, b, chargeOf(limit, "k"))
	for _, end := range []struct {
		name string
		do   func(*redistest.Server)
	}{
		{"a master that was replaced in order", func(*redistest.Server) {}},
		{"a master that is dead", (*redistest.Server).Kill},
	} {
		master := c.MasterOf(slot)
		replica := c.ReplicasOf(master)[0]
		end.do(master)
		c.Promote(replica)
		took := awaitDecision(t, b, chargeOf(limit, "k"))
		t.Logf("after %s: decided after %v", end.name, took)
		if took > 2*time.Second {
			t.Errorf("after %s: decided after %v, want within two seconds", end.name, took)
		}
	}
}
