package memory

import "testing"

func TestOptionsOutOfRange(t *testing.T) {
	for _, c := range []struct {
		option Option
		want   string
	}{
		{WithMaxKeys(0), "memory: WithMaxKeys is 0, want 1 to 1073741824"},
		{WithMaxKeys(mostKeys + 1), "memory: WithMaxKeys is 1073741825, want 1 to 1073741824"},
		{nil, "memory: option 1 of 1 is nil"},
		{WithClock(nil), "memory: WithClock is nil, want a function"},
		{WithMaxLogEntries(-1), "memory: WithMaxLogEntries is -1, want 1 to 134217728"},
		{WithMaxLogEntries(mostLogEntries + 1), "memory: WithMaxLogEntries is 134217729, want 1 to 134217728"},
	} {
		if b, err := New(c.option); err == nil || err.Error() != c.want || b != nil {
			t.Errorf("New() = %v, %v, want %q", b, err, c.want)
		}
	}
}

// Few shards for few keys, so that a bound is the bound; enough for the CPUs;
// and no table that takes long to copy.
func TestShardCount(t *testing.T) {
	for _, c := range []struct{ maxKeys, cpus, want int }{
		{1, 2, 1},
		{31, 64, 1},
		{100, 2, 4},
		{1 << 10, 2, 64},
		{1 << 20, 2, 128},
		{1 << 20, 16, 256},
		{1 << 20, 1000, 256},
		{10_000_000, 2, 2048},
		{mostKeys, 2, maxShards},
	} {
		if got := shardCount(c.maxKeys, c.cpus); got != c.want {
			t.Errorf("shardCount(%d, %d) = %d, want %d", c.maxKeys, c.cpus, got, c.want)
		}
	}
}
