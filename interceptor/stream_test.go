package interceptor_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/interceptor"
)

// The request of a server stream tells the key although the interceptor runs
// before it has arrived.
func TestServerStreamByItsRequest(t *testing.T) {
	backend := &counter{}
	served := 0
	e := &echo{stream: func(s grpc.ServerStream) error {
		if err := s.RecvMsg(new(text)); err != nil {
			return err
		}
		served++
		for range 3 {
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				return err
			}
		}
		return nil
	}}
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1, textField)}, serverStream), backend), e)
	for i, tt := range []struct {
		message string
		refused bool
	}{{"a", false}, {"b", false}, {"a", true}, {"b", true}} {
		if err := call(t.Context(), conn, serverStream, tt.message); interceptor.IsRefused(err) != tt.refused || !tt.refused && err != nil {
			t.Errorf("stream %d, %q: %v, want refused %v", i, tt.message, err, tt.refused)
		}
	}
	if served != 2 || backend.total() != 2 {
		t.Errorf("%d handlers went on and %d units were charged, want 2 and 2", served, backend.total())
	}
}

func TestServerStreamCostFromItsRequest(t *testing.T) {
	backend := &counter{}
	tab := table([]ratelimit.Rule{rule("r", 10)}, serverStream)
	tab[0].Cost = ratelimit.Cost{Path: "value", Field: func(request any) int64 { return int64(len(request.(*text).GetValue())) }}
	conn := serve(t, newLimiter(t, tab, backend), nil)
	if err := call(t.Context(), conn, serverStream, "seven.."); err != nil {
		t.Fatal(err)
	}
	if n := backend.total(); n != 7 {
		t.Errorf("charged %d units, want 7", n)
	}
}

// A handler may do with the error of RecvMsg what it likes.
func TestRefusedStreamStaysRefused(t *testing.T) {
	for name, after := range map[string]func(s grpc.ServerStream, err error) error{
		"ignored":  func(grpc.ServerStream, error) error { return nil },
		"replaced": func(grpc.ServerStream, error) error { return errors.New("no request") },
		"send":     func(s grpc.ServerStream, _ error) error { return s.SendMsg(wrapperspb.String("x")) },
		"header":   func(s grpc.ServerStream, _ error) error { return s.SendHeader(nil) },
		"receive":  func(s grpc.ServerStream, _ error) error { return s.RecvMsg(new(text)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &echo{stream: func(s grpc.ServerStream) error { return after(s, s.RecvMsg(new(text))) }}
			conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1, textField)}, serverStream), answer(refused)), e)
			if err := call(t.Context(), conn, serverStream, "x"); !interceptor.IsRefused(err) {
				t.Errorf("stream ended with %v, want the refusal", err)
			}
		})
	}
}

// A handler that responds before it reads is decided without the request, all
// such calls together.
func TestServerStreamThatNeverReads(t *testing.T) {
	for name, respond := range map[string]func(s grpc.ServerStream) error{
		"send":   func(s grpc.ServerStream) error { return s.SendMsg(wrapperspb.String("x")) },
		"header": func(s grpc.ServerStream) error { return s.SendHeader(nil) },
		"end":    func(grpc.ServerStream) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &log{}
			l := newLimiter(t, table([]ratelimit.Rule{rule("r", 1, textField)}, serverStream), &counter{}, observe(seen.saw))
			conn := serve(t, l, &echo{stream: respond})
			if err := call(t.Context(), conn, serverStream, "a"); err != nil {
				t.Errorf("first stream: %v, want it served", err)
			}
			if err := call(t.Context(), conn, serverStream, "b"); !interceptor.IsRefused(err) {
				t.Errorf("second stream: %v, want it refused", err)
			}
			if seen.missing != 2 {
				t.Errorf("%d calls were seen to lack a part, want 2", seen.missing)
			}
		})
	}
}

// What is known of a stream with many requests when it opens is no field.
func TestClientStreamsAreDecidedWhenTheyOpen(t *testing.T) {
	for _, method := range []string{clientStream, bidi} {
		e := &echo{stream: func(grpc.ServerStream) error {
			t.Errorf("%s: handler runs, want the opening refused", method)
			return nil
		}}
		conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1, textField)}, method), answer(refused)), e)
		if err := call(t.Context(), conn, method, "x"); !interceptor.IsRefused(err) {
			t.Errorf("%s ended with %v, want the refusal", method, err)
		}
	}
}

func TestMessagesOfAStreamAreFree(t *testing.T) {
	backend := &counter{}
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1)}, bidi), backend), nil)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, bidi)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := stream.SendMsg(wrapperspb.String("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(stream.CloseSend(), stream.RecvMsg(new(text))); err != nil {
		t.Fatal(err)
	}
	if n := backend.total(); n != 1 {
		t.Errorf("10 messages: charged %d units, want 1 for the opening", n)
	}
}

// A request that does not come is the client's error, and not charged.
func TestServerStreamWithoutRequest(t *testing.T) {
	backend := &counter{}
	conn := serve(t, newLimiter(t, table([]ratelimit.Rule{rule("r", 1, textField)}, serverStream), backend), nil)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, serverStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(text)); err == nil || interceptor.IsRefused(err) || backend.total() != 0 {
		t.Errorf("stream ended with %v and %d units charged, want an error of the client's and none", err, backend.total())
	}
}
