package goredis

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is one Redis server as the backend speaks to it: the combiner of its
// decisions, and how a batch is sent.
type server struct {
	combiner
	name   string // of the shard
	client processor
	// patience bounds how long a batch may be under way; callers wait less.
	patience time.Duration
	clock    func() time.Time // nil for the server's own
	moved    router           // follows redirects; nil where there are none
	batches  sync.Pool        // of *batch
	greeting greeting
}

// A processor sends commands, as redis.Client and redis.ClusterClient do.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// A router is a processor that knows which server has a key, as
// redis.ClusterClient does.
type router interface {
	processor
	ReloadState(ctx context.Context)
}

const (
	flightsPerServer = 2
	requestsPerBatch = 512
)

func newServer(client processor, moved router, c *config) *server {
	s := &server{client: client, moved: moved, patience: c.patience, clock: c.clock}
	s.greeting.greet = c.greet
	s.combiner = combiner{send: s.decide, flights: flightsPerServer, most: requestsPerBatch, room: c.queue}
	s.batches.New = func() any { return &batch{} }
	return s
}

// decide sends requests, those of each slot by one call of the script, and
// answers them.
func (s *server) decide(requests []*request) {
	bySlot := s.split(requests)
	if err := s.ask(bySlot); err != nil {
		for _, b := range bySlot {
			b.fail(err)
		}
	}
	for _, b := range bySlot {
		for _, r := range b.requests {
			r.answered()
		}
		b.reset()
		s.batches.Put(b)
	}
}

// ask runs batches, each request of which then has its answer, or returns an
// error for all of them.
func (s *server) ask(batches []*batch) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	if len(batches) == 1 {
		s.run(ctx, batches[0])
	} else {
		s.runAll(ctx, batches)
	}
	return nil
}

// split puts requests into batches, one for each slot.
func (s *server) split(requests []*request) []*batch {
	var batches []*batch
	at := map[int]*batch{}
	for _, r := range requests {
		b := at[r.slot]
		if b == nil {
			b = s.batches.Get().(*batch)
			at[r.slot] = b
			batches = append(batches, b)
		}
		b.add(r)
	}
	return batches
}

// run decides one batch.
func (s *server) run(ctx context.Context, b *batch) {
	cmd := command{redis.NewCmd(ctx, b.arguments(takeScript, false, s.now())...)}
	_ = s.client.Process(ctx, cmd)
	s.finish(ctx, b, cmd)
}

// runAll decides batches of several slots in one round trip.
func (s *server) runAll(ctx context.Context, batches []*batch) {
	pipe := s.client.Pipeline()
	cmds := make([]command, len(batches))
	for i, b := range batches {
		cmds[i] = command{redis.NewCmd(ctx, b.arguments(takeScript, false, s.now())...)}
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, b := range batches {
		s.finish(ctx, b, cmds[i])
	}
}

// finish reads a batch's reply, after it has been sent in full to a server that
// lacks the script, or to the server that its slot moved to. Neither charges
// twice: the first one was not run.
func (s *server) finish(ctx context.Context, b *batch, cmd command) {
	err := cmd.Err()
	client := s.client
	if isRedirect(err) && s.moved != nil {
		client = s.moved
		cmd = command{redis.NewCmd(ctx, b.arguments(takeScript, false, s.now())...)}
		err = client.Process(ctx, cmd)
	}
	if isNoScript(err) {
		s.greeting.again()
		cmd = command{redis.NewCmd(ctx, b.arguments(takeScript, true, s.now())...)}
		err = client.Process(ctx, cmd)
	}
	s.noticed(ctx, err)
	reply, textErr := cmd.Text()
	switch {
	case err != nil:
		b.fail(classify(err))
	case textErr != nil:
		b.fail(bug(textErr))
	default:
		b.read(reply)
	}
}

// noticed has the server met when it first answers, and has the router look
// where keys are now if an error may mean that they have a new master: the
// server's own client would not, and the router by itself does every ten
// seconds.
func (s *server) noticed(ctx context.Context, err error) {
	if err == nil {
		s.greeting.answered(s)
	}
	if s.moved != nil && isLost(err) {
		s.moved.ReloadState(ctx)
	}
}

// fail gives every request of the batch an error.
func (b *batch) fail(err error) {
	for _, r := range b.requests {
		r.err = err
	}
}

// now returns the script's last argument.
func (s *server) now() []byte {
	if s.clock == nil {
		return nil
	}
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(max(s.clock().UnixMicro(), 0))))
}
