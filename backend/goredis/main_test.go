package goredis_test

import (
	"testing"

	"github.com/protolimit/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
