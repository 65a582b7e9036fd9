package goredis

import (
	"context"

	"github.com/protolimit/ratelimit"
)

// onlyShard is the shard of what has only one.
const onlyShard = "redis"

// Shard implements [ratelimit.Sharder]: the address of the master that has the
// charge's bucket, "redis" where there is one server, and "" as long as the
// masters of a cluster are not known. It neither dials nor, but for the first
// charge of a slot, allocates.
func (b *Backend) Shard(c *ratelimit.Charge) string {
	topology, ok := b.topology.(*cluster)
	if !ok {
		return onlyShard
	}
	var buffer [256]byte
	key := appendKey(buffer[:0], b.namespace, c.Limit, c.Key)
	if s := topology.at[slotOf(key)].Load(); s != nil {
		return s.name
	}
	if !topology.known.Load() {
		return ""
	}
	s, _, err := topology.route(context.Background(), string(key))
	if err != nil {
		return ""
	}
	return s.name
}
