package goredis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// redirects returns how often a node has answered ASK or MOVED.
func redirects(t *testing.T, s *redistest.Server, kind string) int {
	t.Helper()
	text, ok := s.Do("INFO", "errorstats").(string)
	if !ok {
		t.Fatal("INFO is not text")
	}
	_, count, found := strings.Cut(parseInfo(text)["errorstat_"+kind], "count=")
	if !found {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// homeless returns a namespace whose heartbeats, and a key whose buckets are not at
// the first node, other ones for each number. Slots then move to that one only: two
// nodes that take slots in turn may both claim them.
func homeless(cluster *redistest.Cluster, number int) (namespace string, key []byte) {
	for i := 0; namespace == "" || key == nil; i++ {
		name := fmt.Sprint("n", number, "-", i)
		if cluster.MasterOf(cluster.Slot(name+":instances")) != cluster.Nodes[0] {
			namespace = name
		}
		if cluster.MasterOf(cluster.Slot("{="+name+"}")) != cluster.Nodes[0] {
			key = Key(Text(name))
		}
	}
	return namespace, key
}

// What is sent beside decisions follows a slot to its new master, while it is on
// the move and afterwards.
func TestOtherCallsFollowASlot(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Replicas(0))
	for i, kind := range []string{"ASK", "MOVED", "ASK", "MOVED", "ASK", "MOVED"} {
		name := []string{"adjust", "reset", "heartbeat"}[i/2]
		t.Run(name+" "+kind, func(t *testing.T) {
			namespace, key := homeless(cluster, i)
			b := opened(t, cluster.URL(), WithNamespace(namespace))
			l := limit(t, "b", 10, 366*24*time.Hour)
			receipt := took(t, b, l, key).Receipt
			redistest.Eventually(t, 10*time.Second, "a heartbeat", func() bool { return b.fleet.known.Load() == 1 })
			bucket := string(appendKey(nil, b.namespace, l, key))
			if name == "heartbeat" {
				bucket = b.namespace + ":instances"
			}
			move := cluster.StartMove(cluster.Slot(bucket), cluster.Nodes[0])
			move.Keys()
			if kind == "MOVED" {
				move.Finish()
			}
			before := redirects(t, move.From, kind)
			var err error
			switch name {
			case "adjust":
				err = b.Adjust(t.Context(), []ratelimit.Delta{{Limit: l, Key: key, Cost: 1, Units: 4, Receipt: receipt}})
			case "reset":
				var n int
				if n, err = b.Reset(t.Context(), key, l); n != 1 {
					t.Errorf("Reset returns %d, want 1", n)
				}
			default:
				var n int
				if n, err = b.beat("another", true); n != 2 {
					t.Errorf("a heartbeat returns %d, want 2: it and the backend's own", n)
				}
			}
			if err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if after := redirects(t, move.From, kind); after == before {
				t.Errorf("the old master answered %s %d times as before, want it asked: the test shows nothing", kind, after)
			}
			if kind == "ASK" {
				move.Finish()
			}
			want := map[string]int64{"adjust": 4, "reset": 9, "heartbeat": 8}[name]
			if got := took(t, b, l, key).Remaining; got != want {
				t.Errorf("%d left, want %d", got, want)
			}
		})
	}
}

// Calls that go out together while the keys of their slot are at two nodes are
// decided apart; a call whose own keys are is not.
func TestBatchesOfASlotThatMoves(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Replicas(0))
	namespace, key := homeless(cluster, 0)
	b := opened(t, cluster.URL(), WithNamespace(namespace))
	gone, stays := limit(t, "gone", 10, 366*24*time.Hour), limit(t, "stays", 10, 366*24*time.Hour)
	took(t, b, gone, key)
	took(t, b, stays, key)
	name := string(appendKey(nil, b.namespace, gone, key))
	move := cluster.StartMove(cluster.Slot(name), cluster.Nodes[0])
	host, port, _ := strings.Cut(move.To.Addr, ":")
	move.From.Do("MIGRATE", host, port, name, 0, 5000)
	s, slot, err := b.topology.route(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var requests []*request
	for _, limits := range [][]*ratelimit.Limit{{gone}, {stays}, {gone, stays}} {
		r := newRequest()
		r.slot = slot
		for _, l := range limits {
			r.add(string(appendKey(nil, b.namespace, l, key)), &ratelimit.Charge{Limit: l, Key: key, Cost: 1})
		}
		requests = append(requests, r)
	}
	s.decide(requests)
	for i, r := range requests {
		<-r.done
		if want := i < 2; r.granted != want || (r.err == nil) != want || r.err != nil && !isSplitOutage(r.err) {
			t.Errorf("call %d: granted %t, %v", i, r.granted, r.err)
		}
	}
	move.Keys()
	move.Finish()
	for _, l := range []*ratelimit.Limit{gone, stays} {
		if v := took(t, b, l, key); v.Remaining != 7 {
			t.Errorf("%v: %d are left after three charges, want 7", l, v.Remaining)
		}
	}
}

func isSplitOutage(err error) bool {
	return errors.Is(err, ratelimit.ErrUnavailable) && !errors.Is(err, ratelimit.ErrBackendBug) && strings.Contains(err.Error(), "TRYAGAIN")
}
