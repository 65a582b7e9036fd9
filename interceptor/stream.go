package interceptor

import (
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/protolimit/ratelimit"
)

// kept is a code on which no method gives a charge back.
const kept = ratelimit.Code(math.MaxUint32)

// open decides a stream and returns the quota to tell. The decision ends at
// once: a stream may be long.
func (s *server) open(stream grpc.ServerStream, method string, request any) (quota metadata.MD, err error) {
	ctx := stream.Context()
	d, trailer, err := s.decide(ctx, method, request)
	if err != nil {
		stream.SetTrailer(trailer)
		return nil, err
	}
	quota = s.quota(d)
	d.Done(ctx, kept)
	return quota, nil
}

// A serverStream tells the quota of a stream when it is known that there are
// headers: with the first response. Had they been set before, clients would not
// retry a handler's failure.
type serverStream struct {
	grpc.ServerStream

	quota metadata.MD // nil if it has been told
	told  sync.Once

	// A stream that is decided by its request is open once that has arrived.
	server  *server // nil if the stream is open already
	method  string
	opening sync.Once
	refusal error // the stream's status if it was refused
}

// serve runs the handler, and tells the quota in trailers where the headers are
// gone or the handler failed.
func (s *serverStream) serve(srv any, handler grpc.StreamHandler) error {
	err := handler(srv, s)
	if err == nil {
		err = s.begin()
	}
	if s.refusal != nil {
		return s.refusal // whatever the handler made of it
	}
	s.SetTrailer(s.quota)
	return err
}

// RecvMsg receives a message; the first one may be what decides the stream.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.open(m)
}

// SendHeader sends the headers, the quota among them.
func (s *serverStream) SendHeader(md metadata.MD) error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.ServerStream.SendHeader(md)
}

// SendMsg sends a message, after the headers.
func (s *serverStream) SendMsg(m any) error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// open decides a stream that was not decided yet.
func (s *serverStream) open(request any) error {
	if s.server != nil {
		s.opening.Do(func() {
			s.quota, s.refusal = s.server.open(s.ServerStream, s.method, request)
		})
	}
	return s.refusal
}

// begin is what comes before the first response. A handler that responds before
// it reads its request is decided without it.
func (s *serverStream) begin() error {
	if err := s.open(nil); err != nil {
		return err
	}
	s.told.Do(func() {
		if s.ServerStream.SetHeader(s.quota) == nil {
			s.quota = nil
		}
	})
	return nil
}
