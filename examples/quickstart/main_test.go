package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/internal/redistest"
)

// TestMain lets the test's program be the server that runFleet starts.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// TestDemo: what a person sees of the client's calls is what the limits say,
// whether one server decides or two together.
func TestDemo(t *testing.T) {
	for name, run := range map[string]func(context.Context, io.Writer, options) error{"one": runOne, "fleet": runFleet} {
		t.Run(name, func(t *testing.T) {
			if name == "fleet" {
				redistest.Require(t)
			}
			var out strings.Builder
			if err := run(context.Background(), &out, options{addr: "127.0.0.1:0"}); err != nil {
				t.Fatal(err)
			}
			acts := strings.SplitN(out.String(), "\nRedis is killed", 2)
			checkAnswers(t, acts[0])
			if name == "fleet" {
				checkOutage(t, acts[1])
			}
		})
	}
}

func checkAnswers(t *testing.T, out string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(out) {
		for code := range ratelimit.Code(17) {
			if cells := strings.Fields(line); slices.Contains(cells, code.String()) {
				got = append(got, cells[2]+" "+cells[3]+" "+code.String())
			}
		}
	}
	const ok, refused = " OK", " RESOURCE_EXHAUSTED"
	want := slices.Concat(
		slices.Repeat([]string{"alice Charge" + ok}, 5), slices.Repeat([]string{"alice Charge" + refused}, 2),
		[]string{"alice Charge" + ok, "bob Charge" + ok, "bob Charge" + refused},
		slices.Repeat([]string{"alice Refund" + ok}, 3), []string{"alice Refund" + refused, "alice Ping" + ok},
	)
	if !slices.Equal(got, want) {
		t.Errorf("the demo shows\n%s\nwhose answers are %q, want %q", out, got, want)
	}
}

// checkOutage checks the table of the last act: charges are decided throughout, at
// the limit; refunds fail while Redis is away, and only then.
func checkOutage(t *testing.T, out string) {
	t.Helper()
	charged, seconds, recovered := 0, 0, 0
	for line := range strings.Lines(out) {
		var second, charges, refused, lost, refunds, failed int
		var redis, slowest, slowestRefund string
		if n, _ := fmt.Sscan(line, &second, &redis, &charges, &refused, &lost, &slowest, &refunds, &failed, &slowestRefund); n < 9 {
			continue
		}
		seconds++
		charged += charges
		if lost > 0 || charges+refused == 0 {
			t.Errorf("second %d: %d charges are OK, %d refused, %d unavailable; want each one decided", second, charges, refused, lost)
		}
		switch {
		case redis == "gone" && (refunds > 0 || failed == 0):
			t.Errorf("second %d, without Redis: %d refunds are OK and %d unavailable, want none and all", second, refunds, failed)
		case second == 1 && refunds == 0:
			t.Errorf("with Redis no refund is OK, %d are unavailable", failed)
		case second > 4:
			recovered += refunds
		}
	}
	if recovered == 0 {
		t.Error("no refund is OK after Redis was started again")
	}
	// Of 2/s with a burst of 5: the limit, and one burst more since Redis forgot
	// what it knew; a slow machine's seconds are longer.
	if most := 5 + 2*20 + 6; seconds != 7 || charged < 5 || charged > most {
		t.Errorf("%d charges are OK in %d seconds, want 5 to %d in 7", charged, seconds, most)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestServe: with -serve the server answers until it is interrupted.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithTimeout(context.Background(), time.Minute)
	defer interrupt()
	served := make(chan error, 1)
	go func() { served <- runOne(ctx, &strings.Builder{}, options{addr: addr, serve: true}) }()

	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	check := grpc_health_v1.NewHealthClient(conn)
	if _, err := check.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	interrupt()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
