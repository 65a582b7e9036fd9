package goredis_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Main(m,
		// A client whose server was down sleeps a second before it sees that it is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
