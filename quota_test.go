package ratelimit

import (
	"context"
	"testing"
	"time"
)

func TestQuotaFields(t *testing.T) {
	rules := []Rule{
		{Name: "burst", Rate: Rate{10, time.Second}, Burst: 20},
		{Name: "tiny", Rate: Rate{5, 100 * time.Millisecond}},
		{Name: "daily", Rate: Rate{1000, day}},
	}
	for _, c := range []struct {
		verdicts [3]Verdict
		want     string
	}{
		{[3]Verdict{{Allowed: true, Remaining: 4, ResetAfter: 600 * time.Millisecond}, {Allowed: true, Remaining: 5}, {Allowed: true, Remaining: 412}}, `"burst";r=4;t=1`},
		{[3]Verdict{{Allowed: true, Remaining: 4}, {Allowed: true, Remaining: 4}, {Allowed: true, Remaining: 3, ResetAfter: 31000*time.Second + 1}}, `"daily";r=3;t=31001`},
		{[3]Verdict{{Allowed: true}, {RetryAfter: 20 * time.Millisecond, ResetAfter: time.Hour}, {Allowed: true}}, `"tiny";r=0;t=1`},
		{[3]Verdict{{RetryAfter: Never, ResetAfter: 3 * time.Second, Remaining: 7}, {RetryAfter: 20}, {Allowed: true}}, `"burst";r=7;t=3`},
		{[3]Verdict{{Allowed: true}, {Allowed: true, Remaining: 1}, {Allowed: true, Remaining: 1}}, `"burst";r=0;t=0`},
		{[3]Verdict{{RetryAfter: MaxWait}, {}, {}}, `"burst";r=0;t=9007199255`},
	} {
		l := newLimiter(t, &fakeBackend{take: func(_ context.Context, _ []Charge, verdicts []Verdict) error {
			copy(verdicts, c.verdicts[:])
			return nil
		}}, table(method("/a.S/M", rules...)))
		d := l.Decide(context.Background(), &Call{Method: "/a.S/M"})
		if got := d.Quota(); got != c.want {
			t.Errorf("Quota of %+v is %s, want %s", c.verdicts, got, c.want)
		}
		if got, want := d.Policy(), `"burst";q=10;w=1, "tiny";q=5, "daily";q=1000;w=86400`; got != want {
			t.Errorf("Policy is %s, want %s", got, want)
		}
	}
}
