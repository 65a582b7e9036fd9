package breaker_test

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/backendtest"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/backend/memory"
	"github.com/protolimit/ratelimit/breaker"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// around returns an opener of breakers around a primary that is well.
func around(open backendtest.Open) backendtest.Open {
	return func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		local, err := memory.New(memory.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		b, err := breaker.New(open(t, now), local, breaker.WithBudget(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, around(func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		b, err := memory.New(memory.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}), backendtest.WithGrants(2_000), backendtest.WithTraces(20))
}

func TestContractOnRedis(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	backendtest.Run(t, around(func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		b, err := goredis.Open(url, goredis.WithClock(now), goredis.WithBudget(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}), backendtest.WithGrants(500), backendtest.WithTraces(10), backendtest.WithUnorderedClock())
}

// byCaller is a primary that has a shard for each key.
type byCaller struct{ *memory.Backend }

func (byCaller) Shard(c *ratelimit.Charge) string { return string(c.Key) }

func TestContractOfShards(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, around(func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		b, err := memory.New(memory.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		return byCaller{b}
	}), backendtest.WithGrants(2_000), backendtest.WithTraces(20), backendtest.WithSplitCalls())
}
