package breaker

import (
	"fmt"

	"github.com/protolimit/ratelimit"
)

// checkCall returns an error for a call that is the caller's mistake, whoever
// decides it.
func checkCall(charges []ratelimit.Charge, verdicts []ratelimit.Verdict) error {
	if len(charges) != len(verdicts) {
		return fmt.Errorf("%w: breaker: %d charges and %d verdicts, want as many", ratelimit.ErrBackendBug, len(charges), len(verdicts))
	}
	for i := range charges {
		if charges[i].Cost < 0 {
			return fmt.Errorf("%w: breaker: cost is %d, want 0 or more", ratelimit.ErrBackendBug, charges[i].Cost)
		}
	}
	return nil
}
