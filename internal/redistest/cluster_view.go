package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// slotCount is how many slots a cluster has.
const slotCount = 16384

// A clusterView is what one node knows of all, by their names.
type clusterView map[string]clusterNode

type clusterNode struct {
	addr   string
	master string // the name of the node that it follows, "" for a master
	slots  []slotRange
}

type slotRange struct{ first, last int }

func (n clusterNode) has(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

// String is equal for equal views.
func (v clusterView) String() string {
	var lines []string
	for id, n := range v {
		lines = append(lines, fmt.Sprint(id, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// view asks a node what it knows.
func (s *Server) view() (clusterView, error) {
	client, err := s.running()
	if err != nil {
		return nil, err
	}
	text, err := client.ClusterNodes(context.Background()).Result()
	if err != nil {
		return nil, err
	}
	view := clusterView{}
	for line := range strings.Lines(text) {
		// id ip:port@bus[,host] flags master ping pong epoch link slot...
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("node %s: CLUSTER NODES has %q", s.Addr, line)
		}
		n := clusterNode{}
		n.addr, _, _ = strings.Cut(fields[1], "@")
		if fields[3] != "-" {
			n.master = fields[3]
		}
		for _, field := range fields[8:] {
			if strings.HasPrefix(field, "[") {
				continue // a slot on the move still belongs to one
			}
			r, err := parseSlots(field)
			if err != nil {
				return nil, fmt.Errorf("node %s: CLUSTER NODES has %q: %w", s.Addr, line, err)
			}
			n.slots = append(n.slots, r)
		}
		view[fields[0]] = n
	}
	return view, nil
}

// parseSlots reads "7" and "0-5460".
func parseSlots(text string) (r slotRange, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if r.first, err = strconv.Atoi(first); err != nil || !isRange {
		return slotRange{r.first, r.first}, err
	}
	r.last, err = strconv.Atoi(last)
	return r, err
}
