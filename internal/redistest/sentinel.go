package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Sentinel is a master with replicas, and sentinels that watch it. It ends
// with the test.
type Sentinel struct {
	// MasterName is the name that the sentinels have for the master.
	MasterName string
	// Servers are the first master, and its replicas.
	Servers []*Server
	// Sentinels watch them. Two of them, or one if there is no other, agree
	// that a master is gone.
	Sentinels []*Server

	tb TB
}

// StartSentinel starts a master, by default with one replica and three
// sentinels, and returns when the replicas follow and the sentinels know each
// other. A master is missed after half a second; another follows about a
// second later.
func StartSentinel(tb TB, opts ...Option) *Sentinel {
	tb.Helper()
	Require(tb)
	o := newOptions(opts)
	var err error
	for range 5 {
		s := &Sentinel{MasterName: "mymaster", tb: tb}
		if err = s.start(&o); err == nil {
			return s
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	tb.Fatalf("redistest: sentinel: %v", err)
	return nil
}

func (s *Sentinel) start(o *options) error {
	ports, err := reservePorts(1 + o.replicas + o.sentinels)
	if err != nil {
		return err
	}
	for i, p := range ports {
		if i <= o.replicas {
			s.Servers = append(s.Servers, newServer(s.tb, p, o))
		} else {
			s.Sentinels = append(s.Sentinels, newServer(s.tb, p, &options{}))
		}
	}
	ids := make([]string, len(s.Sentinels))
	for i := range ids {
		ids[i] = randomID()
	}
	// One after the other: who finds its peers missing looks again a second
	// later.
	master := s.Servers[0]
	if err := master.launch(serverConfig(master.port, o)); err != nil {
		return err
	}
	err = each(s.Servers[1:], func(_ int, replica *Server) error {
		follow := fmt.Sprintf("replicaof 127.0.0.1 %d", master.port.number)
		if err := replica.launch(serverConfig(replica.port, o, follow)); err != nil {
			return err
		}
		return poll(startWithin, replica.inTouch)
	})
	if err != nil {
		return err
	}
	err = each(s.Sentinels, func(i int, sentinel *Server) error { return sentinel.watch(s, ids, i) })
	if err != nil {
		return err
	}
	return s.settled(master.Addr)
}

// watch starts a sentinel that knows all from the beginning: else it learns of
// the others within seconds.
func (s *Server) watch(of *Sentinel, ids []string, self int) error {
	name, master := of.MasterName, of.Servers[0]
	lines := []string{
		"bind 127.0.0.1",
		fmt.Sprintf("port %d", s.port.number),
		"dir " + s.dir,
		"sentinel myid " + ids[self],
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", name, master.port.number, min(2, len(ids))),
		fmt.Sprintf("sentinel down-after-milliseconds %s 500", name),
		fmt.Sprintf("sentinel failover-timeout %s 2000", name),
	}
	if master.password != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", name, master.password))
	}
	for _, replica := range of.Servers[1:] {
		lines = append(lines, fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %d", name, replica.port.number))
	}
	for i, other := range of.Sentinels {
		if i != self {
			lines = append(lines, fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %d %s", name, other.port.number, ids[i]))
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(text), 0o600); err != nil {
		return err
	}
	s.args = []string{"--sentinel"}
	if err := s.start(func(*redis.Client) error { return nil }); err != nil {
		return err
	}
	// Servers since 7.0 have this; to older ones it is an error, and they take
	// their time. Once a failover is due, a sentinel asks replicas for INFO once
	// a second: it wants an answer that is younger than five PING-PERIODs, or
	// three INFO-PERIODs if the master lives, to choose one, and an answer
	// within four PUBLISH-PERIODs of the choice, when the others would make the
	// new master a replica again.
	_ = s.client.Do(context.Background(), "SENTINEL", "DEBUG",
		"INFO-PERIOD", 400, "PING-PERIOD", 300, "ASK-PERIOD", 100, "PUBLISH-PERIOD", 400, "MAX-DESYNC", 100).Err()
	return nil
}

// settled returns when all sentinels hold the server of the address for the
// master, with all others that run as replicas, and these follow it.
func (s *Sentinel) settled(addr string) error {
	return poll(startWithin, func() error {
		for _, sentinel := range s.Sentinels {
			if sentinel.PID() == 0 {
				continue
			}
			if err := sentinel.agrees(s, addr); err != nil {
				return err
			}
		}
		for _, server := range s.Servers {
			if server.PID() == 0 {
				continue
			}
			if err := server.follows(addr); err != nil {
				return err
			}
		}
		return nil
	})
}

// agrees has no error when the sentinel would give this address to a client,
// has its peers, and finds the other servers that run fit to be promoted.
func (s *Server) agrees(of *Sentinel, addr string) error {
	client, err := s.running()
	if err != nil {
		return err
	}
	ctx := context.Background()
	info, err := client.Info(ctx, "sentinel").Result()
	if err != nil {
		return err
	}
	want := fmt.Sprintf("name=%s,status=ok,address=%s,slaves=%d,sentinels=%d",
		of.MasterName, addr, len(of.Servers)-1, len(of.Sentinels))
	if got := parseInfo(info)["master0"]; got != want {
		return fmt.Errorf("sentinel %s has %q, want %q", s.Addr, got, want)
	}
	sentinel := redis.NewSentinelClient(client.Options())
	defer func() { _ = sentinel.Close() }() // nothing is under way on it
	replicas, err := sentinel.Replicas(ctx, of.MasterName).Result()
	if err != nil {
		return err
	}
	for _, server := range of.Servers {
		i := slices.IndexFunc(replicas, func(r map[string]string) bool { return r["ip"]+":"+r["port"] == server.Addr })
		if server.Addr == addr || server.PID() == 0 {
			continue
		}
		if i < 0 {
			return fmt.Errorf("sentinel %s does not know of replica %s", s.Addr, server.Addr)
		}
		if r := replicas[i]; r["flags"] != "slave" || r["role-reported"] != "slave" || r["master-link-status"] != "ok" {
			return fmt.Errorf("sentinel %s has replica %s as %s, reporting %s, its link %s",
				s.Addr, server.Addr, r["flags"], r["role-reported"], r["master-link-status"])
		}
	}
	return nil
}

// follows has no error when the server has this address and is a master, or is
// a replica of the one that has, and in touch with it.
func (s *Server) follows(addr string) error {
	client, err := s.running()
	if err != nil {
		return err
	}
	info, err := client.Info(context.Background(), "replication").Result()
	if err != nil {
		return err
	}
	fields := parseInfo(info)
	if s.Addr == addr {
		if fields["role"] != "master" {
			return fmt.Errorf("%s is no master", addr)
		}
		return nil
	}
	if got := fields["master_host"] + ":" + fields["master_port"]; got != addr {
		return fmt.Errorf("%s follows %q, want %s", s.Addr, got, addr)
	}
	return s.inTouch()
}

// Master returns the server that the sentinels hold for the master.
func (s *Sentinel) Master() *Server {
	s.tb.Helper()
	addr, err := s.masterAddr()
	if err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	i := slices.IndexFunc(s.Servers, func(s *Server) bool { return s.Addr == addr })
	if i < 0 {
		s.tb.Fatalf("redistest: the sentinels' master %s is none of these servers", addr)
	}
	return s.Servers[i]
}

// masterAddr asks the first sentinel that runs.
func (s *Sentinel) masterAddr() (string, error) {
	for _, sentinel := range s.Sentinels {
		client, err := sentinel.running()
		if err != nil {
			continue
		}
		addr, err := client.Do(context.Background(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName).StringSlice()
		if err != nil || len(addr) != 2 {
			return "", fmt.Errorf("sentinel %s: master of %s: got %v, %w", sentinel.Addr, s.MasterName, addr, err)
		}
		return addr[0] + ":" + addr[1], nil
	}
	return "", errors.New("all sentinels are down")
}

// Failover has the sentinels replace the master, which runs, by a replica, and
// returns the new master when all agree and the others follow it.
func (s *Sentinel) Failover() *Server {
	s.tb.Helper()
	old := s.Master()
	// Right after another it may find no replica fit.
	err := poll(startWithin, func() error {
		client, err := s.Sentinels[0].running()
		if err != nil {
			return permanent{err}
		}
		return client.Do(context.Background(), "SENTINEL", "FAILOVER", s.MasterName).Err()
	})
	if err != nil {
		s.tb.Fatalf("redistest: failover: %v", err)
	}
	return s.AwaitFailover(old)
}

// AwaitFailover returns the new master when the sentinels, by themselves, have
// replaced the old one and all agree. To have that happen, kill it.
func (s *Sentinel) AwaitFailover(old *Server) *Server {
	s.tb.Helper()
	Eventually(s.tb, startWithin, "another master than "+old.Addr, func() bool {
		addr, err := s.masterAddr()
		return err == nil && addr != old.Addr
	})
	s.Settle()
	return s.Master()
}

// Settle returns when all sentinels and servers that run agree about the
// master, and the others follow it.
func (s *Sentinel) Settle() {
	s.tb.Helper()
	if err := s.settled(s.Master().Addr); err != nil {
		s.tb.Fatalf("redistest: sentinel: %v", err)
	}
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, 0, len(s.Sentinels))
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr)
	}
	return addrs
}

// URL returns the addresses of the sentinels, and the master's password, as
// go-redis parses them for a failover client:
// "redis://127.0.0.1:11001?addr=127.0.0.1%3A11002&master_name=mymaster".
func (s *Sentinel) URL() string {
	addrs := s.Addrs()
	query := url.Values{"addr": addrs[1:], "master_name": {s.MasterName}}
	if password := s.Servers[0].password; password != "" {
		query.Set("password", password)
	}
	u := url.URL{Scheme: "redis", Host: addrs[0], RawQuery: query.Encode()}
	return u.String()
}
