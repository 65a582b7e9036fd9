package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/protolimit/ratelimit"
	quickstartv1 "github.com/protolimit/ratelimit/examples/quickstart/gen/quickstart/v1"
	"github.com/protolimit/ratelimit/interceptor"
)

// A client calls servers in turn and prints a line for each answer.
type client struct {
	conns []*grpc.ClientConn // one a server
	calls int
	table *tabwriter.Writer
	start time.Time
}

func (c *client) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// dial returns a connection to each address.
func dial(addrs []string) ([]*grpc.ClientConn, error) {
	var conns []*grpc.ClientConn
	for _, addr := range addrs {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// runClient plays callers that keep to the limits and callers that do not.
func runClient(ctx context.Context, out io.Writer, addrs ...string) error {
	c := &client{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), start: time.Now()}
	var err error
	if c.conns, err = dial(addrs); err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(out, "Serving on %s, limits from examples/quickstart/proto/quickstart/v1/payments.proto\n\n", strings.Join(addrs, " and "))
	c.row("TIME", "SERVER", "CALLER", "CALL", "ANSWER", "QUOTA", "RETRY AFTER")

	var refused error
	for range 7 { // "caller": 2/s with a burst of 5
		if err := c.charge(ctx, "alice", 1); err != nil {
			refused = err
		}
	}
	wait, ok := interceptor.RetryAfter(refused)
	if !ok {
		return fmt.Errorf("seven calls in a row: want a refusal that says when to come back, not %w", refused)
	}
	c.row("", "", "alice", "waits "+round(wait), "", "", "")
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	if err := c.charge(ctx, "alice", 1); err != nil {
		return fmt.Errorf("after the wait that the server asked for: %w", err)
	}
	if err := c.charge(ctx, "bob", 3); err != nil {
		return fmt.Errorf("a caller with a bucket of its own: %w", err)
	}
	_ = c.charge(ctx, "bob", 6) // more than the burst: no wait will help
	for range 4 {               // "refunds": exactly 3 in any 10 seconds
		_ = c.refund(ctx, "alice")
	}
	if err := c.ping(ctx, "alice"); err != nil {
		return fmt.Errorf("a method that is exempt: %w", err)
	}
	return c.table.Flush()
}

func (c *client) charge(ctx context.Context, user string, items int) error {
	request := &quickstartv1.ChargeRequest{MerchantId: "books", Items: make([]string, items)}
	return c.call(ctx, user, fmt.Sprintf("Charge %d item(s)", items), func(ctx context.Context, server quickstartv1.PaymentsServiceClient, opts ...grpc.CallOption) error {
		_, err := server.Charge(ctx, request, opts...)
		return err
	})
}

func (c *client) refund(ctx context.Context, user string) error {
	return c.call(ctx, user, "Refund", func(ctx context.Context, server quickstartv1.PaymentsServiceClient, opts ...grpc.CallOption) error {
		_, err := server.Refund(ctx, &quickstartv1.RefundRequest{}, opts...)
		return err
	})
}

func (c *client) ping(ctx context.Context, user string) error {
	return c.call(ctx, user, "Ping", func(ctx context.Context, server quickstartv1.PaymentsServiceClient, opts ...grpc.CallOption) error {
		_, err := server.Ping(ctx, &quickstartv1.PingRequest{}, opts...)
		return err
	})
}

// call makes one call as user and prints what came of it.
func (c *client) call(ctx context.Context, user, name string, do func(context.Context, quickstartv1.PaymentsServiceClient, ...grpc.CallOption) error) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "x-user", user), 5*time.Second)
	defer cancel()
	server := c.calls % len(c.conns)
	c.calls++
	var header, trailer metadata.MD
	at := time.Since(c.start)
	err := do(ctx, quickstartv1.NewPaymentsServiceClient(c.conns[server]), grpc.Header(&header), grpc.Trailer(&trailer))
	retry := ""
	if wait, ok := interceptor.RetryAfter(err); ok {
		retry = round(wait)
	} else if interceptor.IsRefused(err) {
		retry = "never"
	}
	quota := strings.Join(append(header.Get("ratelimit"), trailer.Get("ratelimit")...), "")
	answer := ratelimit.Code(status.Code(err)).String()
	c.row(round(at), string(rune('A'+server)), user, name, answer, quota, retry)
	return err
}

func (c *client) row(cells ...string) { fmt.Fprintln(c.table, strings.Join(cells, "\t")) }

// round returns a duration in whole milliseconds, rounded up.
func round(d time.Duration) string {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
