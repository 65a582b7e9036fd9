package goredis

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// meetingTime bounds what is asked of a server when it first answers.
	meetingTime = 2 * time.Second
	// meetAgainAfter keeps a server that loses its scripts all the time from
	// being asked all the time.
	meetAgainAfter = 10 * time.Second
	// clockSlack is how far a server's clock may be off unnoticed.
	clockSlack = time.Second
)

//go:embed lua/probe.lua
var probeSource string

// A greeting has a server met once, when it first answers, and again when it may
// be another behind the same client: it lacks what the first one was given.
type greeting struct {
	greet func(*server)
	done  atomic.Bool
	last  atomic.Int64 // when, in ns since processStart
}

var processStart = time.Now()

// answered is told of each answer.
func (g *greeting) answered(s *server) {
	if g.done.Load() || g.done.Swap(true) || g.greet == nil {
		return
	}
	g.last.Store(int64(time.Since(processStart)))
	g.greet(s)
}

// again is told of signs of another server.
func (g *greeting) again() {
	if time.Since(processStart)-time.Duration(g.last.Load()) >= meetAgainAfter {
		g.done.Store(false)
	}
}

// greet has a server met beside the decisions, but for one under a test's clock,
// which may be asked nothing else.
func (b *Backend) greet(s *server) {
	client, ok := s.client.(*redis.Client)
	if !ok || b.clock != nil {
		return
	}
	b.behind.start(func() {
		var err error // what a hook of the client panics with, decisions tell
		defer recovered(&err)
		b.meet(client)
	})
	b.fleet.join(b)
}

// meet gives a server what the next decisions need, and warns of what would
// break limits there.
func (b *Backend) meet(client *redis.Client) {
	ctx, cancel := context.WithTimeout(b.behind.ctx, meetingTime)
	defer cancel()
	probe, _ := b.topology.keyOf(ctx, client, b.namespace+":{~probe", "}:probe") // "" if it has no slots
	client = client.WithTimeout(min(meetingTime, max(b.patience, socketTimeout)))
	for _, s := range []*script{bucketScript, bucketsScript, takeScript, adjustScript, instancesScript} {
		if err := client.Process(ctx, command{redis.NewCmd(ctx, "script", "load", s.source)}); err != nil {
			break // by then each is sent in full when it is missed
		}
	}
	warm(ctx, client)
	for _, w := range inspect(ctx, client, probe, time.Now) {
		b.logger.LogAttrs(ctx, w.level(), "goredis: "+w.text, w.attrs(client.Options().Addr)...)
	}
}

// warm opens the connections that decisions need, and shakes hands on them: one
// that the client keeps open has not done so before its first use.
func warm(ctx context.Context, client *redis.Client) {
	o := client.Options()
	conns := make([]*redis.Conn, max(min(max(o.MinIdleConns, flightsPerServer), o.PoolSize-1), 0))
	for i := range conns {
		conns[i] = client.Conn()
		_ = conns[i].Ping(ctx).Err() // decisions will tell
	}
	for _, conn := range conns {
		_ = conn.Close() // back to the pool, now that all are there
	}
}

// inspect looks for what would break limits on a server. What it may not look
// at it passes over: managed services forbid some commands.
func inspect(ctx context.Context, client *redis.Client, probe string, clock func() time.Time) []warning {
	var found []warning
	info := command{redis.NewCmd(ctx, "info")}
	if client.Process(ctx, info) == nil {
		text, _ := info.Text() // in what is not text nothing is found
		found = inspectInfo(parseInfo(text))
	}
	sent := clock()
	if now, err := client.Time(ctx).Result(); err == nil {
		took := clock().Sub(sent)
		if off := now.Sub(sent.Add(took/2)).Abs() - took/2; off > clockSlack {
			found = append(found, warning{
				text:   "the clock of Redis is not that of this machine: windows turn by Redis's, and at another time while it is away",
				remedy: "synchronise both clocks (NTP)", key: "apart", value: off.Round(time.Millisecond).String(),
			})
		}
	}
	if missing := forbidden(ctx, client, probe); len(missing) > 0 {
		found = append(found, warning{
			text:   "Redis forbids commands that decisions need",
			remedy: "ACL SETUSER <user> +" + strings.Join(missing, " +"), key: "commands", value: strings.Join(missing, " "),
			bug: true,
		})
	}
	return found
}

// inspectInfo looks at what INFO says.
func inspectInfo(info map[string]string) (found []warning) {
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		found = append(found, warning{
			text:   "Redis drops keys when its memory is full, and with them what callers have used",
			remedy: "set maxmemory-policy to noeviction, in a Redis that holds nothing else", key: "maxmemory-policy", value: policy,
		})
	}
	if role := info["role"]; role == "slave" {
		found = append(found, warning{
			text:   "Redis is a replica: it decides nothing",
			remedy: "connect to its master, or through sentinels or a cluster's client", key: "role", value: role,
		})
	}
	if version := info["redis_version"]; version != "" && info["valkey_version"] == "" && older(version, 6, 2) {
		found = append(found, warning{
			text:   "this version of Redis is older than those that are tested",
			remedy: "use Redis 6.2 or newer, or Valkey", key: "version", value: version,
		})
	}
	return found
}

// forbidden returns the commands that the user may not run, tried on a key that
// the server has; "" tries none.
func forbidden(ctx context.Context, client *redis.Client, key string) []string {
	if key == "" {
		return nil
	}
	probe := command{redis.NewCmd(ctx, "eval", probeSource, 1, key)}
	err := client.Process(ctx, probe)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []string{"eval"}
	}
	missing, err := probe.StringSlice()
	if err != nil {
		return nil // decisions will tell
	}
	return missing
}

// older tells whether a version such as "7.0.15" is below major.minor.
func older(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(second)
	return errors.Join(errA, errB) == nil && (a < major || a == major && b < minor)
}

// parseInfo returns the fields of INFO.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
