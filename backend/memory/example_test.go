package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
)

func Example() {
	backend, err := memory.New(memory.WithMaxKeys(100_000))
	if err != nil {
		panic(err)
	}
	defer func() { _ = backend.Close() }()
	limit, err := ratelimit.NewLimit("uploads", ratelimit.Rule{
		Rate:  ratelimit.Rate{Count: 10, Window: time.Hour},
		Burst: 2,
	})
	if err != nil {
		panic(err)
	}
	charges := []ratelimit.Charge{{Limit: limit, Key: []byte("alice"), Cost: 1}}
	verdicts := make([]ratelimit.Verdict, len(charges))
	for range 3 {
		if err := backend.Take(context.Background(), charges, verdicts); err != nil {
			panic(err)
		}
		v := verdicts[0]
		fmt.Println(v.Allowed, v.Remaining, v.RetryAfter.Round(time.Minute))
	}
	fmt.Println(backend.Stats().Keys)
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 6m0s
	// 1
}
