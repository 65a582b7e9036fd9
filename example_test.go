package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/memory"
)

// A limiter for a table in Go code; that of a service comes from its generated
// function, such as paymentsv1.PaymentsLimits().
func Example() {
	backend, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	table := ratelimit.Table{{
		Name: "/acme.pay.v1.Payments/Charge",
		Rules: []ratelimit.Rule{{
			Name: "burst",
			Rate: ratelimit.Rate{Count: 1, Window: time.Hour},
			Key:  []ratelimit.KeyPart{{Source: ratelimit.SourcePrincipal}},
		}},
	}}
	alice := func(context.Context) (string, bool) { return "alice", true }
	limiter, err := ratelimit.New(table, backend, ratelimit.WithPrincipal(alice))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 2 {
		d := limiter.Decide(ctx, &ratelimit.Call{Method: "/acme.pay.v1.Payments/Charge"})
		fmt.Println(d.Outcome, d.Policy())
		d.Done(ctx, 0)
	}
	// Output:
	// allowed "burst";q=1;w=3600
	// refused "burst";q=1;w=3600
}

// A rule that cannot be used is told when the limiter is made.
func ExampleNew_errors() {
	backend, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = ratelimit.New(ratelimit.Table{{
		Name:  "/acme.pay.v1.Payments/Charge",
		Rules: []ratelimit.Rule{{Name: "burst", Rate: ratelimit.Rate{Count: 10, Window: time.Second}, Burst: -1}},
	}}, backend)
	var rule *ratelimit.RuleError
	fmt.Println(errors.As(err, &rule), rule.Field)
	fmt.Println(err)
	// Output:
	// true burst
	// /acme.pay.v1.Payments/Charge: rule "burst": burst is -1, want 1 to 1000000000000
}

func ExampleParseRate() {
	rate, err := ratelimit.ParseRate("100/15m")
	fmt.Println(rate.Count, rate.Window, err)
	_, err = ratelimit.ParseRate("100/s/s")
	fmt.Println(err)
	// Output:
	// 100 15m0s <nil>
	// want COUNT/[N]UNIT with UNIT one of ms, s, m, h, d, w, such as "10/s" or "100/15m"
}

// A service with several tables has one limiter.
func ExampleMerge() {
	charge := ratelimit.Table{{Name: "/acme.pay.v1.Payments/Charge"}}
	refund := ratelimit.Table{{Name: "/acme.pay.v1.Refunds/Create"}}
	table, err := ratelimit.Merge(charge, refund)
	fmt.Println(len(table), err)
	_, err = ratelimit.Merge(table, charge)
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// /acme.pay.v1.Payments/Charge: method is "/acme.pay.v1.Payments/Charge", want each method once
}
