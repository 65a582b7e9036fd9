package breaker

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// What a bucket owes is never more than is used of it, nor below nothing.
func TestDebtsFollowWhatIsUsed(t *testing.T) {
	l := ledger{room: 1}
	c := &ratelimit.Charge{Limit: newLimit(t, 10), Key: []byte("alice")}
	for _, step := range []struct {
		add, used, change, owed int64
	}{
		{add: 3, used: 3, owed: 3},
		{add: 2, used: 5, owed: 5},
		{add: 2, used: 4, owed: 4}, // some has drained
		{add: 5, used: 2, owed: 5}, // what was just granted is owed for certain
		{change: -2, owed: 3},
		{change: 4, owed: 7},
		{change: -9, owed: 0},
	} {
		if step.add > 0 {
			l.add(c, step.add, step.used, 0)
		} else {
			l.change(c, step.change)
		}
		if owed := l.owed(c); owed != step.owed {
			t.Errorf("after %+v %d are owed", step, owed)
		}
	}
	if n := l.size.Load(); n != 0 {
		t.Errorf("%d buckets owe nothing", n)
	}
	l.add(c, 3, 3, 0)
	other := &ratelimit.Charge{Limit: c.Limit, Key: []byte("bob")}
	l.add(other, 5, 5, 0)
	if l.owed(other) != 0 || l.dropped.Load() != 5 {
		t.Errorf("%d are owed without room, and %d dropped, want 0 and 5", l.owed(other), l.dropped.Load())
	}
	taken := l.take(l.charges())
	l.add(c, 2, 5, 0)
	if l.owed(c) != 5 || len(taken) != 1 || taken[0].Units != 3 {
		t.Errorf("%d are owed while %v is charged, want 5", l.owed(c), taken)
	}
	l.settled(taken, true)
	if l.owed(c) != 5 {
		t.Errorf("%d are owed after a charge that was not sent, want 5", l.owed(c))
	}
	l.settled(l.take(l.charges()), false)
	if l.owed(c) != 0 || l.size.Load() != 0 {
		t.Errorf("%d are owed after all was charged", l.owed(c))
	}
}

// What a grant that is not alone saw as used says nothing of what others noted
// since.
func TestCrossedGrantsAddUp(t *testing.T) {
	l := ledger{room: 1}
	c := &ratelimit.Charge{Limit: newLimit(t, 10), Key: []byte("alice")}
	first := l.locals.begin()
	second := l.locals.begin()
	l.add(c, 1, 2, second)
	l.locals.end()
	l.add(c, 1, 1, first)
	l.locals.end()
	if owed := l.owed(c); owed != 2 {
		t.Errorf("%d are owed of two grants at once, want 2", owed)
	}
	alone := l.locals.begin()
	l.add(c, 1, 1, alone)
	l.locals.end()
	if owed := l.owed(c); owed != 1 {
		t.Errorf("%d are owed when only the last is used, want 1", owed)
	}
}

// Doubts are kept of as many buckets as the ledger keeps.
func TestDoubtsAreBounded(t *testing.T) {
	d := doubts{room: 2}
	limit := newLimit(t, 10)
	for _, key := range []string{"alice", "bob", "carol", "alice"} {
		d.add([]ratelimit.Delta{{Limit: limit, Key: []byte(key), Units: 3}})
	}
	for key, want := range map[string]int64{"alice": 6, "bob": 3, "carol": 0} {
		if n := d.of(&ratelimit.Charge{Limit: limit, Key: []byte(key)}); n != want {
			t.Errorf("%d of %s are in doubt, want %d", n, key, want)
		}
	}
	if n := d.cut(&ratelimit.Charge{Limit: limit, Key: []byte("alice")}, 4); n != 4 || d.size.Load() != 2 {
		t.Errorf("cut to 4 there are %d, of %d buckets", n, d.size.Load())
	}
	if n := d.cut(&ratelimit.Charge{Limit: limit, Key: []byte("alice")}, 0); n != 0 || d.size.Load() != 1 {
		t.Errorf("cut to 0 there are %d, of %d buckets", n, d.size.Load())
	}
}

// Breakers of many instances do not open for the same time.
func TestOpenTimesDiffer(t *testing.T) {
	c := defaults()
	times := map[time.Duration]bool{}
	for range 100 {
		d := c.jittered()
		times[d] = true
		if d < time.Second || d > 1250*time.Millisecond {
			t.Errorf("a breaker opens for %v, want 1s to 1.25s", d)
		}
	}
	if len(times) < 50 {
		t.Errorf("100 breakers open for %d different times", len(times))
	}
}

// A portion is rounded against the caller, and holds for the greatest numbers.
func TestPortion(t *testing.T) {
	for _, c := range []struct{ used, part, whole, want int64 }{
		{0, 4, 10, 0},
		{1, 4, 10, 1},
		{5, 4, 10, 2},
		{6, 4, 10, 3},
		{10, 4, 10, 4},
		{11, 4, 10, 4},
		{-1, 4, 10, 0},
		{1 << 62, 1 << 61, 1 << 62, 1 << 61},
		{1<<62 - 1, 1 << 61, 1 << 62, 1 << 61},
	} {
		if n := portion(c.used, c.part, c.whole); n != c.want {
			t.Errorf("portion(%d, %d, %d) is %d, want %d", c.used, c.part, c.whole, n, c.want)
		}
	}
}
