package goredis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// Refused calls of many callers at once use nothing of a bucket that they share.
func TestRefusedCallsDoNotUseUpASharedBucket(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Replicas(0))
	b := open(t, dialCluster(t, c.Addrs()))
	keys := homes(c, 1)
	shared, own := burstOf(t, "shared", 100, 1000), burstOf(t, "own", 1, 1)
	var n atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				charges := []ratelimit.Charge{chargeOf(shared, keys[0][0]), {Limit: own, Key: fmt.Append(nil, n.Add(1)), Cost: 2}}
				_ = b.Take(context.Background(), charges, make([]ratelimit.Verdict, 2))
			}
		})
	}
	wg.Wait()
	if got := left(t, b, shared, keys[0][0]); got < 990 {
		t.Errorf("after %d refused calls the shared bucket has %d left, want 1000 or a few less", n.Load(), got)
	}
}
