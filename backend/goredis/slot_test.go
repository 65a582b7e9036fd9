package goredis

import (
	"fmt"
	"testing"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestSlotIsThatOfRedis(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Masters(1), redistest.Replicas(0))
	keys := []string{
		"", "a", "rl:instances", "rl:{=alice}:b:t", "{", "}", "{}", "{}a", "{a}", "a{b}c", "a{b", "a}b{", "{a}{b}", "{{a}}", "a{}b{c}", "\xff\x00{\xfe}",
	}
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("rl:{=caller-%d}:bucket-%d:t", i, i))
	}
	for _, key := range keys {
		if got, want := slotOf(key), cluster.Slot(key); got != want {
			t.Errorf("slot of %q: got %d, want %d", key, got, want)
		}
		if got, want := slotOf([]byte(key)), slotOf(key); got != want {
			t.Errorf("slot of the bytes %q: got %d, want %d", key, got, want)
		}
	}
}
