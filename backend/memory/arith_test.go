package memory

import (
	"math"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

func TestSaturation(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"plus", plus(3, 5), 8},
		{"plus too much", plus(maxCount, 1), maxCount},
		{"plus far too much", plus(maxCount, math.MaxUint64), maxCount},
		{"wait", uint64(wait(7)), uint64(7 * time.Microsecond)},
		{"wait for ever", uint64(wait(math.MaxUint64)), uint64(ratelimit.MaxWait)},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.name, c.got, c.want)
		}
	}
}
