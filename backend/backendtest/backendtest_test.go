package backendtest

import (
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

func TestModel(t *testing.T) {
	Run(t, func(_ *testing.T, now func() time.Time) ratelimit.Backend { return newModel(now) },
		WithGrants(20_000), WithTraces(100))
}
