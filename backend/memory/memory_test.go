package memory_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/backendtest"
	"github.com/protolimit/ratelimit/backend/memory"
)

// Nothing here starts a goroutine that outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	backendtest.Run(t, func(t *testing.T, now func() time.Time) ratelimit.Backend {
		t.Helper()
		b, err := memory.New(memory.WithClock(now))
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
