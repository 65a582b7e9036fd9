package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The settings of [NewClient]. Decisions keep their own time beside the socket,
// so that these may be patient: what they bound is how long a server that went
// silent is waited for before the connection is given up.
const (
	// socketTimeout lets a stall of Redis pass without a connection dropped. A
	// server that goes silent for good keeps decisions from the next one so long
	// for every two connections of the pool.
	socketTimeout = 500 * time.Millisecond
	// dialTimeout holds a handshake of TLS over a long way.
	dialTimeout = time.Second
	// poolSize is what one server gets at most: two batches under way, and the
	// adjustments beside them.
	poolSize = 8
	// idleConns are kept open: those of two batches, and one.
	idleConns = flightsPerServer + 1
	// concurrentDials keeps a server that comes back from being stormed, and
	// leaves part of the pool to those who do not wait for a dial.
	concurrentDials = 4
)

// NewClient returns a client with the settings that decisions want, for a URL
// as go-redis parses it:
//
//	redis://user:password@host:6379/0                     one server
//	rediss://host:6380                                    the same, with TLS
//	unix:///run/redis.sock?db=0                           the same, through a socket
//	redis://host:6379?addr=host2:6379&addr=host3:6379     a cluster, by some of its nodes
//	redis+cluster://host:6379                             a cluster, by one address
//	redis://host:26379?master_name=main&addr=host2:26379  sentinels; user and password are theirs
//
// A cluster and sentinels take rediss too, and rediss+cluster. Further settings
// are parameters of the URL, as [redis.ParseURL], [redis.ParseClusterURL] and
// [redis.ParseFailoverURL] have them: read_timeout=1s. Those that would break
// what a decision promises are errors, as in [New].
//
// The client dials in the background at once. It belongs to the caller; [Open]
// returns a Backend that has a client of its own.
func NewClient(url string, opts ...ClientOption) (redis.UniversalClient, error) {
	c := &config{}
	for _, o := range opts {
		if err := o.apply(c); err != nil {
			return nil, err
		}
	}
	client, err := newClient(url, &c.client)
	if err != nil {
		return nil, fmt.Errorf("goredis: NewClient: %w", err)
	}
	return client, nil
}

// Open returns a Backend that decides through a client of its own, which
// [Backend.Close] closes. The URL is that of [NewClient]. With a budget above
// 500ms the client's timeouts are as long.
func Open(url string, opts ...Option) (*Backend, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	c.client.atLeast = c.budget
	client, err := newClient(url, &c.client)
	if err != nil {
		return nil, fmt.Errorf("goredis: Open: %w", err)
	}
	b, err := newBackend(client, c)
	if err != nil {
		_ = client.Close() // nobody has used it
		return nil, fmt.Errorf("goredis: Open: %w", err)
	}
	b.owned = client
	return b, nil
}

// A ClientOption changes how a client is built: an Option of [NewClient] and
// [Open], and an error to [New].
type ClientOption interface {
	Option
	ofClient()
}

type clientOption func(*clientConfig) error

func (f clientOption) apply(c *config) error {
	c.client.named = true
	return f(&c.client)
}
func (clientOption) ofClient() {}

// A clientConfig is what the options of a client say.
type clientConfig struct {
	tls         *tls.Config
	credentials func(context.Context) (string, string, error)
	atLeast     time.Duration // the shortest that timeouts may be
	named       bool          // an option was given
}

// WithTLSConfig sets the roots, certificates and versions of a rediss URL. A
// server name that it does not have is the URL's host. config is copied.
func WithTLSConfig(config *tls.Config) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if config == nil {
			return errors.New("goredis: WithTLSConfig: config is nil")
		}
		c.tls = config.Clone()
		return nil
	})
}

// WithCredentials has the user and the password of each new connection come
// from a function, which is safe for concurrent use, for those that change over
// time. They win over those of the URL; sentinels get those of the URL.
func WithCredentials(credentials func(context.Context) (user, password string, err error)) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if credentials == nil {
			return errors.New("goredis: WithCredentials: credentials is nil")
		}
		c.credentials = credentials
		return nil
	})
}

var errURL = errors.New("the URL cannot be parsed, want one such as redis://user:password@host:6379/0")

// newClient builds the kind of client that a URL asks for.
func newClient(text string, c *clientConfig) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL // without url's own error: it repeats the password
	}
	scheme, isCluster := strings.CutSuffix(u.Scheme, "+cluster")
	u.Scheme = scheme
	query := u.Query()
	if c.tls != nil && scheme != "rediss" {
		return nil, fmt.Errorf("WithTLSConfig: the URL's scheme is %q, want rediss", scheme)
	}
	switch {
	case query.Has("master_name") && !isCluster:
		return newFailover(u.String(), c)
	case isCluster, query.Has("addr"):
		return newCluster(u.String(), c)
	}
	return newSingle(u.String(), c)
}

func newSingle(url string, c *clientConfig) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c.tune(settings{
		&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.PoolSize, &o.MaxConcurrentDials,
		&o.PipelinePoolSize, &o.Protocol, &o.DisableIdentity, &o.ContextTimeoutEnabled,
		&o.TLSConfig, &o.CredentialsProviderContext,
	})
	o.MaxRetries = cmp.Or(o.MaxRetries, -1)
	o.MinIdleConns = cmp.Or(o.MinIdleConns, min(idleConns, o.PoolSize))
	o.MaintNotificationsConfig = withoutNotifications()
	if err := refuse(judgeOptions(o, c.atLeast).broken); err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}

// newCluster keeps no connection open that nobody asked for: the client would do
// so to replicas too.
func newCluster(url string, c *clientConfig) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(url)
	if err != nil {
		return nil, err
	}
	c.tune(settings{
		&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.PoolSize, &o.MaxConcurrentDials,
		&o.PipelinePoolSize, &o.Protocol, &o.DisableIdentity, &o.ContextTimeoutEnabled,
		&o.TLSConfig, &o.CredentialsProviderContext,
	})
	o.MaintNotificationsConfig = withoutNotifications()
	o.DisableRoutingPolicies = true // else the first redirect asks for all commands that there are
	if err := refuse(judgeCluster(o, c.atLeast).broken); err != nil {
		return nil, err
	}
	return redis.NewClusterClient(o), nil
}

// newFailover keeps no connection open either: the client would do so to
// sentinels too.
func newFailover(url string, c *clientConfig) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(url)
	if err != nil {
		return nil, err
	}
	c.tune(settings{
		&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.PoolSize, &o.MaxConcurrentDials,
		&o.PipelinePoolSize, &o.Protocol, &o.DisableIdentity, &o.ContextTimeoutEnabled,
		&o.TLSConfig, &o.CredentialsProviderContext,
	})
	o.MaxRetries = cmp.Or(o.MaxRetries, -1)
	if err := refuse(judgeFailover(o, c.atLeast).broken); err != nil {
		return nil, err
	}
	return redis.NewFailoverClient(o), nil
}

// settings are those that the options of all kinds of clients have.
type settings struct {
	dialTimeout, readTimeout, writeTimeout *time.Duration
	dialTries, poolSize, concurrentDials   *int
	pipelinePool                           *int
	protocol                               *int
	withoutIdentity, byContext             *bool
	tls                                    **tls.Config
	credentials                            *func(context.Context) (string, string, error)
}

// tune sets what a URL left open.
func (c *clientConfig) tune(s settings) {
	timeout := max(socketTimeout, c.atLeast)
	*s.dialTimeout = cmp.Or(*s.dialTimeout, dialTimeout)
	*s.readTimeout = cmp.Or(*s.readTimeout, timeout)
	*s.writeTimeout = cmp.Or(*s.writeTimeout, timeout)
	*s.dialTries = cmp.Or(*s.dialTries, 1) // a refusal is told at once
	*s.poolSize = cmp.Or(*s.poolSize, poolSize)
	*s.concurrentDials = cmp.Or(*s.concurrentDials, concurrentDials)
	*s.pipelinePool = cmp.Or(*s.pipelinePool, -1) // the connections of the pool are warm
	*s.protocol = cmp.Or(*s.protocol, 2)          // nothing here needs what 3 adds
	*s.withoutIdentity = true                     // it costs each handshake a round trip
	*s.byContext = true                           // calls that are alone wait on the socket
	*s.tls = c.mergeTLS(*s.tls)
	*s.credentials = c.credentials
}

// mergeTLS returns the configuration of a URL, with that of the option in its
// place, if there is one.
func (c *clientConfig) mergeTLS(ofURL *tls.Config) *tls.Config {
	if c.tls == nil || ofURL == nil {
		return ofURL
	}
	merged := c.tls.Clone()
	merged.ServerName = cmp.Or(merged.ServerName, ofURL.ServerName)
	merged.MinVersion = cmp.Or(merged.MinVersion, tls.VersionTLS12)
	merged.InsecureSkipVerify = merged.InsecureSkipVerify || ofURL.InsecureSkipVerify
	return merged
}

// withoutNotifications spares each handshake a round trip, and keeps a handover
// from making timeouts longer.
func withoutNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
