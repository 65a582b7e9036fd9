package goredis

import (
	"strings"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// A cluster behind one address, as a proxy shows it, refuses to decide keys of
// several slots in one script: they are decided apart from then on.
func TestClusterBehindOneAddress(t *testing.T) {
	cluster, book := redistest.StartCluster(t, redistest.Masters(1), redistest.Replicas(0)), &logbook{}
	b := opened(t, "redis://"+cluster.Addrs()[0], WithLogger(book.logger()))
	first, second := limit(t, "first", 5, time.Hour), limit(t, "second", 2, time.Hour)
	for i := range 3 {
		charges := []ratelimit.Charge{{Limit: first, Key: Key(Text("alice")), Cost: 1}, {Limit: second, Key: Key(Text("shop")), Cost: 1}}
		verdicts := make([]ratelimit.Verdict, 2)
		if err := b.Take(t.Context(), charges, verdicts); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		if granted := verdicts[0].Allowed && verdicts[1].Allowed; granted != (i < 2) {
			t.Errorf("call %d: granted %v, want the first two", i+1, granted)
		}
		if want := int64(max(4-i, 3)); verdicts[0].Remaining != want {
			t.Errorf("call %d: %d left of the first rule, want %d", i+1, verdicts[0].Remaining, want)
		}
	}
	if n := strings.Count(book.String(), "cluster behind one address"); n != 1 {
		t.Errorf("warned %d times, want once: %s", n, book.String())
	}
}
