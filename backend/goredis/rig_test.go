package goredis_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// algorithms are all of them.
var algorithms = []ratelimit.Algorithm{
	ratelimit.TokenBucket, ratelimit.LeakyBucket, ratelimit.FixedWindow, ratelimit.SlidingWindow, ratelimit.SlidingLog,
}

// limitOf returns a limit of count a window.
func limitOf(t testing.TB, bucket string, a ratelimit.Algorithm, count int64, window time.Duration) *ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Algorithm: a, Rate: ratelimit.Rate{Count: count, Window: window}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// burstOf returns a TOKEN_BUCKET limit of count a second and a burst.
func burstOf(t testing.TB, bucket string, count, burst int64) *ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.NewLimit(bucket, ratelimit.Rule{Rate: ratelimit.Rate{Count: count, Window: time.Second}, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// chargeOf returns a charge of one unit.
func chargeOf(l *ratelimit.Limit, key string) ratelimit.Charge {
	return ratelimit.Charge{Limit: l, Key: []byte(key), Cost: 1}
}

// open returns a backend that is closed with the test, with room for a slow
// machine.
func open(t testing.TB, client redis.UniversalClient, opts ...goredis.Option) *goredis.Backend {
	t.Helper()
	// It would warn that the client is set for a shorter budget.
	quiet := goredis.WithLogger(slog.New(slog.DiscardHandler))
	b, err := goredis.New(client, append([]goredis.Option{goredis.WithBudget(10 * time.Second), quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// mustTake decides charges, and fails the test if nothing is decided.
func mustTake(t testing.TB, b ratelimit.Backend, charges ...ratelimit.Charge) []ratelimit.Verdict {
	t.Helper()
	verdicts := make([]ratelimit.Verdict, len(charges))
	if err := b.Take(t.Context(), charges, verdicts); err != nil {
		t.Fatalf("Take: %v", err)
	}
	return verdicts
}

// take decides charges and tells whether all have room.
func take(t testing.TB, b ratelimit.Backend, charges ...ratelimit.Charge) bool {
	t.Helper()
	for _, v := range mustTake(t, b, charges...) {
		if !v.Allowed {
			return false
		}
	}
	return true
}

// quietly turns off what a client says to a server by itself.
func quietly() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// dialURL returns a client with the settings that the package gives it.
func dialURL(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := goredis.NewClient(url)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, client)
}

// dial returns a client of one address.
func dial(t testing.TB, addr string, db int) redis.UniversalClient {
	t.Helper()
	return dialURL(t, fmt.Sprintf("redis://%s/%d", addr, db))
}

// dialServer returns a client of a server.
func dialServer(t testing.TB, s *redistest.Server) redis.UniversalClient {
	t.Helper()
	return dialURL(t, s.URL())
}

// dialCluster returns a client of a cluster.
func dialCluster(t testing.TB, addrs []string) redis.UniversalClient {
	t.Helper()
	return dialURL(t, "redis+cluster://"+addrs[0]+"?"+url.Values{"addr": addrs[1:]}.Encode())
}

// dialSentinel returns a client of a master that sentinels watch.
func dialSentinel(t testing.TB, master string, sentinels []string) redis.UniversalClient {
	t.Helper()
	return dialURL(t, "redis://"+sentinels[0]+"?"+url.Values{"addr": sentinels[1:], "master_name": {master}}.Encode())
}

// closing has a client closed at the end of the test.
func closing[C interface{ Close() error }](t testing.TB, client C) C {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("close a client: %v", err)
		}
	})
	return client
}

// masterKeys returns keys, named by the node that has them, so many for each.
func masterKeys(c *redistest.Cluster, each int) map[string][]string {
	keys, masters := map[string][]string{}, len(c.Masters())
	for i, full := 0, 0; full < masters; i++ {
		key := fmt.Sprintf("caller-%d", i)
		addr := c.MasterOf(c.Slot("{!" + key + "}")).Addr
		if len(keys[addr]) == each {
			continue
		}
		if keys[addr] = append(keys[addr], key); len(keys[addr]) == each {
			full++
		}
	}
	return keys
}
