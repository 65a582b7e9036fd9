package goredis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/backendtest"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// opener opens backends that share a client. The suite's clock stands still, so
// that the budget only has to leave room for a slow machine.
func opener(client redis.UniversalClient) backendtest.Open {
	return func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		b, err := goredis.New(client, goredis.WithClock(now), goredis.WithBudget(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// newClient returns a client that is closed with the test.
func newClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := goredis.NewClient(url)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, client)
}

func TestContract(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, opener(newClient(t, redistest.Shared(t).URL())),
		backendtest.WithGrants(10_000), backendtest.WithTraces(200), backendtest.WithUnorderedClock())
}

// Traces are of one key a call, which a cluster decides as one server does: a few
// are enough.
func TestContractOnCluster(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, opener(newClient(t, redistest.StartCluster(t, redistest.Replicas(0)).URL())),
		backendtest.WithGrants(10_000), backendtest.WithTraces(40), backendtest.WithUnorderedClock(), backendtest.WithSplitCalls())
}
