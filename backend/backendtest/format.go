package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/protolimit/ratelimit"
)

// A call is one call of Take or Adjust that was made.
type call struct {
	at       time.Duration // since the epoch
	charges  []ratelimit.Charge
	verdicts []ratelimit.Verdict
	deltas   []ratelimit.Delta
}

// copied returns c with nothing shared but limits and keys, which checks that
// remember calls do not change.
func (c call) copied() call {
	c.charges, c.verdicts, c.deltas = slices.Clone(c.charges), slices.Clone(c.verdicts), slices.Clone(c.deltas)
	return c
}

// String returns a line for each charge or delta.
func (c call) String() string {
	var lines []string
	for i := range c.charges {
		lines = append(lines, fmt.Sprintf("take %s: %s", formatCharge(&c.charges[i]), formatVerdict(c.verdicts[i])))
	}
	for i := range c.deltas {
		d := &c.deltas[i]
		lines = append(lines, fmt.Sprintf("adjust %s by %d, receipt %+v",
			formatCharge(&ratelimit.Charge{Limit: d.Limit, Key: d.Key, Cost: d.Cost}), d.Units, d.Receipt))
	}
	return fmt.Sprintf("+%v ", c.at) + strings.Join(lines, "\n    and ")
}

func formatCharge(c *ratelimit.Charge) string {
	key := c.Key
	if len(key) > 32 {
		key = key[:32]
	}
	return fmt.Sprintf("cost %d of %v key %q (%d bytes)", c.Cost, c.Limit, key, len(c.Key))
}

// formatVerdict returns v without its receipt.
func formatVerdict(v ratelimit.Verdict) string {
	s := fmt.Sprintf("remaining %d, reset after %v", v.Remaining, v.ResetAfter)
	if v.Wait != 0 {
		s += fmt.Sprintf(", wait %v", v.Wait)
	}
	if v.Allowed && v.Reason == ratelimit.ReasonNone && v.RetryAfter == 0 {
		return "allowed, " + s
	}
	retry := v.RetryAfter.String()
	if v.RetryAfter == ratelimit.Never {
		retry = "never"
	}
	return fmt.Sprintf("allowed %t, reason %v, retry after %s, %s", v.Allowed, v.Reason, retry, s)
}
