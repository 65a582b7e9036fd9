package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A clusterPlan is what the nodes of a new cluster find in their files, as if
// they had known each other before: they need not meet and learn.
//
// A node that starts as a master waits for two seconds before it serves,
// whatever it knows. One that becomes a master while it runs does not. So all
// nodes start as replicas, of masters that don't exist; those that shall be
// masters take over, the others follow them, as they would after a failure, and
// all forget the invented ones.
type clusterPlan struct {
	masters  int
	ports    []*port
	ids      []string
	invented []string // one for each master
}

func newClusterPlan(ports []*port, masters int) *clusterPlan {
	plan := &clusterPlan{masters: masters, ports: ports}
	for range ports {
		plan.ids = append(plan.ids, randomID())
	}
	for range masters {
		plan.invented = append(plan.invented, randomID())
	}
	return plan
}

// randomID returns a name of the form that nodes and sentinels have.
func randomID() string {
	id := make([]byte, 20)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// write writes the file of the node with the given index.
func (plan *clusterPlan) write(dir string, self int) error {
	var text strings.Builder
	for i, id := range plan.ids {
		flags := "slave"
		if i == self {
			flags = "myself,slave"
		}
		number := plan.ports[i].number
		master := plan.invented[i%plan.masters]
		if i >= plan.masters {
			master = plan.invented[(i-plan.masters)*plan.masters/(len(plan.ids)-plan.masters)]
		}
		fmt.Fprintf(&text, "%s 127.0.0.1:%d@%d %s %s 0 0 0 connected\n", id, number, number+busOffset, flags, master)
	}
	for i, id := range plan.invented {
		first, last := i*slotCount/plan.masters, (i+1)*slotCount/plan.masters-1
		// Nobody listens on port 1.
		fmt.Fprintf(&text, "%s 127.0.0.1:1@1 master - 0 0 %d connected %d-%d\n", id, i+1, first, last)
	}
	// Different numbers, so that no two nodes claim slots in the same epoch.
	fmt.Fprintf(&text, "vars currentEpoch %d lastVoteEpoch 0\n", plan.masters+self)
	return os.WriteFile(filepath.Join(dir, "nodes.conf"), []byte(text.String()), 0o600)
}
