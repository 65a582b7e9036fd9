package goredis_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"
	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestNewClientKnowsKinds(t *testing.T) {
	for _, test := range []struct {
		url       string
		isCluster bool
		addrs     string // what the client was told to connect to
	}{
		{"redis://localhost:1", false, "localhost:1"},
		{"rediss://localhost:1", false, "localhost:1"},
		{"unix:///no/such.sock?db=2", false, "/no/such.sock"},
		{"redis://localhost:1?addr=localhost:2&addr=localhost:3", true, "localhost:1,localhost:2,localhost:3"},
		{"redis+cluster://localhost:1", true, "localhost:1"},
		{"rediss+cluster://localhost:1?addr=localhost:2", true, "localhost:1,localhost:2"},
		{"redis://localhost:1?master_name=main&addr=localhost:2", false, "FailoverClient"},
	} {
		client, err := goredis.NewClient(test.url)
		if err != nil {
			t.Errorf("NewClient(%s): %v", test.url, err)
			continue
		}
		closing(t, client)
		switch c := client.(type) {
		case *redis.Client:
			if test.isCluster || c.Options().Addr != test.addrs {
				t.Errorf("NewClient(%s): got a client of %s, want one of %s, a cluster %v", test.url, c.Options().Addr, test.addrs, test.isCluster)
			}
		case *redis.ClusterClient:
			if got := strings.Join(c.Options().Addrs, ","); !test.isCluster || got != test.addrs {
				t.Errorf("NewClient(%s): got a cluster's client of %s, want one of %s, a cluster %v", test.url, got, test.addrs, test.isCluster)
			}
		}
		if _, err := goredis.New(client, goredis.WithLogger(silence(t))); err != nil {
			t.Errorf("New of NewClient(%s): %v", test.url, err)
		}
	}
}

func TestNewClientKeepsWhatTheURLSays(t *testing.T) {
	client, err := goredis.NewClient("redis://user:secret@localhost:1/3?read_timeout=1s&pool_size=7&dial_timeout=3&protocol=3")
	if err != nil {
		t.Fatal(err)
	}
	o := closing(t, client).(*redis.Client).Options()
	if o.Username != "user" || o.Password != "secret" || o.DB != 3 || o.ReadTimeout != time.Second ||
		o.PoolSize != 7 || o.DialTimeout != 3*time.Second || o.Protocol != 3 {
		t.Errorf("got %+v, want what the URL says", o)
	}
	if o.DialerRetries != 1 || o.WriteTimeout != 500*time.Millisecond || o.MaxRetries != 0 || !o.DisableIdentity || !o.ContextTimeoutEnabled {
		t.Errorf("got %+v, want the settings of decisions elsewhere", o)
	}
}

func TestNewClientRefuses(t *testing.T) {
	for _, test := range []struct {
		url  string
		want []string
	}{
		{"redis://localhost:1?read_timeout=0&write_timeout=-1", []string{"ReadTimeout is none, want", "WriteTimeout is none, want"}},
		{"redis://localhost:1?addr=localhost:2&read_only=true&route_randomly=true", []string{"ReadOnly is true", "RouteRandomly is true"}},
		{"redis+cluster://localhost:1?route_by_latency=true", []string{"RouteByLatency is true"}},
		{"redis://localhost:1?master_name=main&replica_only=true&route_by_latency=true&read_timeout=0", []string{"ReplicaOnly is true", "RouteByLatency is true", "ReadTimeout is none"}},
		{"redis://localhost:1?no_such=1", []string{"no_such"}},
		{"http://localhost:1", []string{"http"}},
		{"redis://user:secret@localhost:port", []string{"want one such as redis://"}},
	} {
		_, err := goredis.NewClient(test.url)
		if err == nil {
			t.Errorf("NewClient(%s): no error", test.url)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("NewClient(%s): error %q, want one with %q", test.url, err, want)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("NewClient(%s): error %q tells the password", test.url, err)
		}
	}
}

func TestNewClientWithTLS(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	client, err := goredis.NewClient("rediss://redis.example:1", goredis.WithTLSConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	got := closing(t, client).(*redis.Client).Options().TLSConfig
	if got.ServerName != "redis.example" || got.MinVersion != tls.VersionTLS13 || config.ServerName != "" {
		t.Errorf("got server name %q and version %x, want the URL's and the option's; the caller's now has %q",
			got.ServerName, got.MinVersion, config.ServerName)
	}
	if _, err := goredis.NewClient("redis://redis.example:1", goredis.WithTLSConfig(config)); err == nil || !strings.Contains(err.Error(), "want rediss") {
		t.Errorf("a URL without TLS: got %v, want an error that asks for rediss", err)
	}
	if _, err := goredis.NewClient("rediss://redis.example:1", goredis.WithTLSConfig(nil)); err == nil {
		t.Error("no configuration: got no error")
	}
	plain := dialServer(t, redistest.Shared(t))
	if _, err := goredis.New(plain, goredis.WithTLSConfig(config)); err == nil || !strings.Contains(err.Error(), "New changes no client") {
		t.Errorf("New: got %v, want an error: it changes no client", err)
	}
}

func TestNewClientWithCredentials(t *testing.T) {
	s := redistest.Start(t, redistest.Password("right"))
	asked := make(chan struct{}, 100)
	credentials := func(context.Context) (string, string, error) {
		asked <- struct{}{}
		return "default", "right", nil
	}
	b, err := goredis.Open("redis://:wrong@"+s.Addr, goredis.WithCredentials(credentials), goredis.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	mustTake(t, b, chargeOf(burstOf(t, "login", 1, 10), "a"))
	<-asked
}

// A Backend of Open closes its client, one of New leaves the caller's open.
func TestCloseClosesItsOwnClient(t *testing.T) {
	s := redistest.Start(t)
	l := burstOf(t, "b", 1, 10)

	b, err := goredis.Open(s.URL(), goredis.WithBudget(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	mustTake(t, b, chargeOf(l, "a"))
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	redistest.Eventually(t, 5*time.Second, "the connections closed", func() bool { return s.Info("clients", "connected_clients") == "1" })

	client := dialServer(t, s)
	b = open(t, client)
	mustTake(t, b, chargeOf(l, "a"))
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
}

// Everywhere the same decisions: on one server, a cluster and behind sentinels.
func TestOpenEachKind(t *testing.T) {
	single, cluster, sentinel := redistest.Start(t), redistest.StartCluster(t), redistest.StartSentinel(t)
	for kind, url := range map[string]string{
		"single": single.URL(), "cluster": cluster.URL(), "cluster by one address": "redis+cluster://" + cluster.Addrs()[0], "sentinel": sentinel.URL(),
	} {
		t.Run(kind, func(t *testing.T) {
			b, err := goredis.Open(url, goredis.WithBudget(10*time.Second), goredis.WithNamespace(strings.ReplaceAll(kind, " ", "-")))
			if err != nil {
				t.Fatal(err)
			}
			l := limitOf(t, "b", ratelimit.SlidingLog, 2, time.Hour)
			for i := range 3 {
				if got, want := take(t, b, chargeOf(l, "a")), i < 2; got != want {
					t.Errorf("call %d of a burst of 2: got granted %v, want %v", i+1, got, want)
				}
			}
			if err := b.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}
