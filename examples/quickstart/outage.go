package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/protolimit/ratelimit/examples/quickstart/gen/quickstart/v1"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// everySoOften is how often each kind of call is made in an outage.
const everySoOften = 50 * time.Millisecond

// runOutage kills the Redis and starts it again while clients call the servers in
// turn, and prints what these saw, second by second.
func runOutage(ctx context.Context, out io.Writer, redis *redistest.Server, addrs ...string) error {
	conns, err := dial(addrs)
	if err != nil {
		return err
	}
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	var charges, refunds tally
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	clients.Go(func() { // "caller": 2/s with a burst of 5, or each server its half
		charges.call(ctx, conns, func(ctx context.Context, server quickstartv1.PaymentsServiceClient, _ int) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-user", "carol")
			_, err := server.Charge(ctx, &quickstartv1.ChargeRequest{MerchantId: "books", Items: make([]string, 1)})
			return err
		})
	})
	clients.Go(func() { // "refunds": each from another user, so it refuses none; on_unavailable: DENY
		refunds.call(ctx, conns, func(ctx context.Context, server quickstartv1.PaymentsServiceClient, n int) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-user", fmt.Sprint("user-", n))
			_, err := server.Refund(ctx, &quickstartv1.RefundRequest{})
			return err
		})
	})
	defer clients.Wait()
	defer stop()
	return watch(ctx, out, redis, &charges, &refunds)
}

// watch prints what clients see in the seconds before, in and after an outage.
func watch(ctx context.Context, out io.Writer, redis *redistest.Server, charges, refunds *tally) error {
	fmt.Fprint(out, "\nRedis is killed and started again. One user charges, many others want a refund, each kind 20 times a second:\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SECOND\tREDIS\tCHARGES: OK\tREFUSED\tUNAVAILABLE\tSLOWEST\tREFUNDS: OK\tUNAVAILABLE\tSLOWEST")
	for i, second := range []struct {
		redis string
		begin func()
	}{
		{"runs", nil},
		{"killed", redis.Kill},
		{"gone", nil},
		{"gone", nil},
		{"started", redis.Restart},
		{"runs", nil},
		{"runs", nil},
	} {
		if second.begin != nil {
			second.begin()
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		c, r := charges.take(), refunds.take()
		for _, s := range []seen{c, r} {
			if s.err != nil {
				return s.err
			}
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%s\n", i+1, second.redis,
			c.ok, c.refused, c.unavailable, round(c.slowest), r.ok, r.unavailable, round(r.slowest))
	}
	return table.Flush()
}

// seen is what came of calls.
type seen struct {
	ok, refused, unavailable int
	slowest                  time.Duration
	err                      error // one that is none of these
}

// A tally counts what came of calls of one kind.
type tally struct {
	mu   sync.Mutex
	seen seen
}

// call makes calls to servers in turn, until ctx ends.
func (t *tally) call(ctx context.Context, conns []*grpc.ClientConn, do func(ctx context.Context, server quickstartv1.PaymentsServiceClient, n int) error) {
	for n := 0; sleep(ctx, everySoOften) == nil; n++ {
		start := time.Now()
		err := do(ctx, quickstartv1.NewPaymentsServiceClient(conns[n%len(conns)]), n)
		if ctx.Err() == nil {
			t.add(time.Since(start), err)
		}
	}
}

func (t *tally) add(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.slowest = max(t.seen.slowest, took)
	switch status.Code(err) {
	case codes.OK:
		t.seen.ok++
	case codes.ResourceExhausted:
		t.seen.refused++
	case codes.Unavailable:
		t.seen.unavailable++
	default:
		t.seen.err = err
	}
}

// take returns what was counted since the last time.
func (t *tally) take() seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.seen
	t.seen = seen{}
	return s
}
