package ratelimit

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// fakeBackend answers every call by its functions, and allows it without one.
type fakeBackend struct {
	take     func(ctx context.Context, charges []Charge, verdicts []Verdict) error
	adjust   func(ctx context.Context, deltas []Delta) error
	fallback bool
}

func (b *fakeBackend) Take(ctx context.Context, charges []Charge, verdicts []Verdict) error {
	for i := range verdicts {
		verdicts[i] = Verdict{Allowed: true, Remaining: charges[i].Limit.Most() - charges[i].Cost, Receipt: Receipt{At: int64(i + 1)}}
	}
	if b.take == nil {
		return nil
	}
	return b.take(ctx, charges, verdicts)
}

func (b *fakeBackend) Adjust(ctx context.Context, deltas []Delta) error { return b.adjust(ctx, deltas) }

func (*fakeBackend) Close() error { return nil }

func (b *fakeBackend) HasFallback() bool { return b.fallback }

// fakeTransport is a peer and headers.
type fakeTransport struct {
	peer   netip.Addr
	noPeer bool
	header map[string][]string
}

func (f *fakeTransport) Peer(context.Context) (netip.Addr, bool) { return f.peer, !f.noPeer }

func (f *fakeTransport) Values(_ context.Context, name string) []string { return f.header[name] }

// keyOf returns the key that a limiter charges for a rule with these parts.
func keyOf(t interface{ Fatal(args ...any) }, call Call, opts []Option, parts ...KeyPart) []byte {
	var key []byte
	backend := &fakeBackend{fallback: true, take: func(_ context.Context, charges []Charge, _ []Verdict) error {
		key = slices.Clone(charges[0].Key)
		return nil
	}}
	r := Rule{Name: "r", Rate: Rate{10, time.Second}, Key: parts}
	l, err := New(table(method("/a.S/M", r)), backend, append(opts, WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	call.Method = "/a.S/M"
	d := l.Decide(context.Background(), &call)
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	return key
}
