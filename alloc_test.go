//go:build !race

package ratelimit

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// The race detector has sync.Pool forget things on purpose, so that allocations
// are counted without it.

func TestDecideDoesNotAllocate(t *testing.T) {
	rules := []Rule{
		{Name: "a", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceIP}}},
		{Name: "b", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceIP}, {Source: SourceMetadata, Name: "k"}, {Source: SourcePrincipal}}},
		{Name: "c", Rate: Rate{10, time.Second}, Key: []KeyPart{{Source: SourceField, Name: "f", Class: ClassText, Field: textField}}},
	}
	l := newLimiter(t, &fakeBackend{fallback: true}, table(method("/a.S/M", rules...)), WithPrincipal(value("alice", true)))
	transport := &fakeTransport{peer: netip.MustParseAddr("192.0.2.7"), header: map[string][]string{"k": {"v"}}}
	var request any = "field"
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		l.Decide(ctx, &Call{Method: "/a.S/M", Request: request, Transport: transport}).Done(ctx, 0)
	}); n != 0 {
		t.Errorf("a decision allocates %v times, want 0", n)
	}
}
