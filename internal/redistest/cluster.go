package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Cluster is a running Redis Cluster. It ends with the test. Its methods ask
// the nodes, so that they tell what holds now.
type Cluster struct {
	// Nodes are all of its servers: first those that began as masters, in the
	// order of their slots, then the replicas, in the order of their masters.
	Nodes []*Server

	tb TB
}

// StartCluster starts a cluster, by default of three masters with one replica
// each, and returns when all of its nodes serve and agree, and the replicas
// follow their masters. Nodes miss each other after a second; a line
// "cluster-node-timeout 300" in Config makes that sooner.
func StartCluster(tb TB, opts ...Option) *Cluster {
	tb.Helper()
	Require(tb)
	o := newOptions(opts)
	var err error
	for range 5 {
		c := &Cluster{tb: tb}
		if err = c.start(&o); err == nil {
			return c
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	tb.Fatalf("redistest: cluster: %v", err)
	return nil
}

func (c *Cluster) start(o *options) error {
	ports, err := reservePorts(o.masters * (1 + o.replicas))
	if err != nil {
		return err
	}
	for _, p := range ports {
		c.Nodes = append(c.Nodes, newServer(c.tb, p, o))
	}
	plan := newClusterPlan(ports, o.masters)
	config := []string{
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		"cluster-node-timeout 1000",
		"cluster-replica-validity-factor 0",
		// A master that lost its replicas gets none of another's.
		"cluster-migration-barrier 1000",
	}
	err = each(c.Nodes, func(i int, s *Server) error {
		if err := plan.write(s.dir, i); err != nil {
			return err
		}
		return s.launch(serverConfig(s.port, o, config...))
	})
	if err != nil {
		return err
	}
	if err := c.claimSlots(plan); err != nil {
		return err
	}
	return c.gossip()
}

// gossip returns when the new cluster has settled. News come with pings, and
// these twice in the time after which a node is missed. A short one does no
// harm: it takes a replica half a second more to act on it.
func (c *Cluster) gossip() error {
	const timeout = "cluster-node-timeout"
	ctx := context.Background()
	wanted := make([]string, len(c.Nodes))
	err := each(c.Nodes, func(i int, s *Server) error {
		values, err := s.client.ConfigGet(ctx, timeout).Result()
		if err != nil {
			return err
		}
		wanted[i] = values[timeout]
		return s.client.ConfigSet(ctx, timeout, "200").Err()
	})
	if err != nil {
		return err
	}
	if err := c.settled(startWithin); err != nil {
		return err
	}
	if err := poll(startWithin, c.epochsDiffer); err != nil {
		return err
	}
	return each(c.Nodes, func(i int, s *Server) error { return s.client.ConfigSet(ctx, timeout, wanted[i]).Err() })
}

// epochsDiffer has no error when all nodes know the epoch of each master, and no
// two are the same, as those are that took over at the same time. Else a master
// may get a new one later, claim with it the slots that it just gave away, and
// who had taken them drops their keys.
func (c *Cluster) epochsDiffer() error {
	first := ""
	for _, s := range c.running() {
		text, err := s.client.ClusterNodes(context.Background()).Result()
		if err != nil {
			return err
		}
		of, all := map[string]bool{}, []string{}
		for line := range strings.Lines(text) {
			// id addr flags master ping pong epoch link slot...
			if fields := strings.Fields(line); len(fields) > 8 {
				of[fields[6]] = true
				all = append(all, fields[0]+" "+fields[6])
			}
		}
		slices.Sort(all)
		epochs := strings.Join(all, "\n")
		if len(of) < len(all) || (first != "" && epochs != first) {
			return fmt.Errorf("node %s sees epochs that are not those of each:\n%s", s.Addr, epochs)
		}
		first = epochs
	}
	return nil
}

// claimSlots makes masters of the nodes that shall be, in place of those that
// the plan invents, and has everyone forget these.
func (c *Cluster) claimSlots(plan *clusterPlan) error {
	return each(c.Nodes, func(i int, s *Server) error {
		ctx := context.Background()
		if i < plan.masters {
			// A node that thinks the cluster down when it becomes a master waits
			// two seconds, a replica does not. Where it comes too late for that
			// it waits, and no harm is done.
			_ = poll(time.Second, s.clusterOK)
			if err := s.client.Do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
				return fmt.Errorf("node %s takes over: %w", s.Addr, err)
			}
		}
		return poll(startWithin, func() error {
			view, err := s.view()
			if err != nil {
				return err
			}
			for _, id := range plan.invented {
				node, known := view[id]
				if !known {
					continue
				}
				if len(node.slots) > 0 {
					return fmt.Errorf("node %s has not heard of a new master", s.Addr)
				}
				// A replica still follows an invented master until it hears of the real one.
				if err := s.client.Do(ctx, "CLUSTER", "FORGET", id).Err(); err != nil {
					return fmt.Errorf("node %s forgets: %w", s.Addr, err)
				}
			}
			return nil
		})
	})
}

// Settle returns when all nodes that run serve and agree about who has which
// slots and who follows whom, and the replicas are in touch with their masters.
// Nodes that are down must have been replaced.
func (c *Cluster) Settle() {
	c.tb.Helper()
	if err := c.settled(startWithin); err != nil {
		c.tb.Fatalf("redistest: cluster: %v", err)
	}
}

func (c *Cluster) settled(within time.Duration) error {
	return poll(within, func() error {
		first := ""
		for _, s := range c.running() {
			if err := s.clusterOK(); err != nil {
				return err
			}
			view, err := s.view()
			if err != nil {
				return err
			}
			text := view.String()
			if first == "" {
				first = text
			}
			if text != first {
				return fmt.Errorf("nodes disagree:\n%s\n%s", first, text)
			}
			if err := s.inTouch(); err != nil {
				return err
			}
		}
		return nil
	})
}

// clusterOK has no error when the node serves.
func (s *Server) clusterOK() error {
	client, err := s.running()
	if err != nil {
		return err
	}
	info, err := client.ClusterInfo(context.Background()).Result()
	if err == nil && parseInfo(info)["cluster_state"] != "ok" {
		return fmt.Errorf("node %s finds the cluster down", s.Addr)
	}
	return err
}

// inTouch has no error when the server is a master, or follows one.
func (s *Server) inTouch() error {
	client, err := s.running()
	if err != nil {
		return err
	}
	link, err := infoField(context.Background(), client, "replication", "master_link_status")
	if err == nil && link == "down" {
		return fmt.Errorf("replica %s has no link to its master", s.Addr)
	}
	return err
}

// running returns the nodes that are not down.
func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return s.PID() == 0 })
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// URL returns the nodes' addresses as go-redis parses them for a cluster:
// "redis://127.0.0.1:11001?addr=127.0.0.1%3A11002".
func (c *Cluster) URL() string {
	u, err := url.Parse(c.Nodes[0].URL())
	if err != nil {
		c.tb.Fatalf("redistest: %v", err)
	}
	u.RawQuery = url.Values{"addr": c.Addrs()[1:]}.Encode()
	return u.String()
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, ok := c.running()[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	if !ok {
		c.tb.Fatalf("redistest: CLUSTER KEYSLOT %q is no number", key)
	}
	return int(slot)
}

// MasterOf returns the node that serves a slot.
func (c *Cluster) MasterOf(slot int) *Server {
	c.tb.Helper()
	for _, n := range c.view() {
		if n.master == "" && n.has(slot) {
			return c.at(n.addr)
		}
	}
	c.tb.Fatalf("redistest: nobody has slot %d", slot)
	return nil
}

// Masters returns the nodes that have slots, in the order of Nodes.
func (c *Cluster) Masters() []*Server {
	c.tb.Helper()
	return c.nodes(func(n clusterNode) bool { return n.master == "" && len(n.slots) > 0 })
}

// ReplicasOf returns the nodes that follow a master.
func (c *Cluster) ReplicasOf(master *Server) []*Server {
	c.tb.Helper()
	id := c.id(master)
	return c.nodes(func(n clusterNode) bool { return n.master == id })
}

// nodes returns the nodes that fit, in the order of Nodes.
func (c *Cluster) nodes(fits func(clusterNode) bool) []*Server {
	c.tb.Helper()
	byAddr := map[string]bool{}
	for _, n := range c.view() {
		byAddr[n.addr] = fits(n)
	}
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return !byAddr[s.Addr] })
}

// view returns the cluster as the first running node sees it.
func (c *Cluster) view() clusterView {
	c.tb.Helper()
	running := c.running()
	if len(running) == 0 {
		c.tb.Fatalf("redistest: all nodes are down")
	}
	view, err := running[0].view()
	if err != nil {
		c.tb.Fatalf("redistest: %v", err)
	}
	return view
}

// at returns the node of an address.
func (c *Cluster) at(addr string) *Server {
	c.tb.Helper()
	i := slices.IndexFunc(c.Nodes, func(s *Server) bool { return s.Addr == addr })
	if i < 0 {
		c.tb.Fatalf("redistest: %s is not of this cluster", addr)
	}
	return c.Nodes[i]
}

// id returns the name that the cluster has for a node.
func (c *Cluster) id(s *Server) string {
	c.tb.Helper()
	for id, n := range c.view() {
		if n.addr == s.Addr {
			return id
		}
	}
	c.tb.Fatalf("redistest: %s is not of this cluster", s.Addr)
	return ""
}

// Promote makes a master of a replica, and returns when all agree: in order,
// with nothing lost, while its master lives, and by force if it does not.
func (c *Cluster) Promote(replica *Server) {
	c.tb.Helper()
	id := c.id(replica)
	master := c.view()[c.view()[id].master]
	if master.addr == "" {
		c.tb.Fatalf("redistest: promote %s: it is no replica", replica.Addr)
	}
	if c.at(master.addr).PID() == 0 {
		replica.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	} else {
		replica.Do("CLUSTER", "FAILOVER")
	}
	Eventually(c.tb, startWithin, "a promoted replica", func() bool {
		view, err := replica.view()
		return err == nil && view[id].master == ""
	})
	c.Settle()
}
