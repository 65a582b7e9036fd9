package goredis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is one Redis server as the backend speaks to it: the combiner of its
// decisions, and how a batch is sent.
type server struct {
	combiner
	changes queue[*changes]
	name    string // of the shard
	client  processor
	// patience bounds how long a batch may be under way; callers wait less.
	patience time.Duration
	clock    func() time.Time // nil for the server's own
	moved    router           // follows redirects; nil where there are none
	batches  sync.Pool        // of *batch
	greeting greeting
	alone    alone
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

// newServer returns a server that sends until b is closed, which waits for what is
// under way; changes that wait then are sent too: they mostly give back what nobody
// uses.
func newServer(b *behind, client processor, moved router, c *config) *server {
	s := &server{client: client, moved: moved, patience: c.patience, clock: c.clock}
	s.greeting.greet = c.greet
	if c, ok := client.(*redis.Client); ok && c.Options().ContextTimeoutEnabled {
		// Its reads and writes end with their context, which those of batches are
		// not to before the socket's own.
		s.patience = max(s.patience, socketTimeout)
		if endsWithContext(c.Options()) {
			s.alone.longest = longestAlone
		}
	}
	s.combiner = combiner{send: s.decide, flights: flightsPerServer, most: requestsPerBatch, room: c.queue, behind: b}
	s.changes = queue[*changes]{send: s.change, room: c.queue, start: b.start}
	s.batches.New = func() any { return newBatch() }
	return s
}

// decide sends requests, those of each slot by one call of a script, and answers
// them. What buckets.lua left undecided, and so uncharged, goes to take.lua.
func (s *server) decide(requests []*request) {
	batches := s.split(requests)
	s.ask(batches)
	var large []*request
	for _, r := range requests {
		if r.large {
			large = append(large, r)
		}
	}
	if len(large) > 0 {
		again := s.split(large)
		s.ask(again)
		batches = append(batches, again...)
	}
	for _, b := range batches {
		s.put(b)
	}
	for _, r := range requests {
		r.answered()
	}
}

func (s *server) put(b *batch) {
	b.reset()
	s.batches.Put(b)
}

// ask runs batches, each request of which then has its answer or an error.
func (s *server) ask(batches []*batch) {
	if len(batches) == 0 {
		return
	}
	if err := s.run(batches); err != nil {
		for _, b := range batches {
			b.fail(err)
		}
	}
}

// split puts requests into batches, at least one for each slot and script.
func (s *server) split(requests []*request) []*batch {
	var batches []*batch
	for _, r := range requests {
		script := r.script()
		i := len(batches) - 1
		for i >= 0 && (batches[i].slot != r.slot || batches[i].script != script || batches[i].buckets+len(r.buckets) > maxBuckets) {
			i--
		}
		if i < 0 {
			b := s.batches.Get().(*batch)
			b.slot, b.script = r.slot, script
			i = len(batches)
			batches = append(batches, b)
		}
		batches[i].add(r)
	}
	for _, b := range batches {
		b.choose()
	}
	return batches
}

// run sends batches in one round trip.
func (s *server) run(batches []*batch) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	if len(batches) == 1 {
		cmd := s.command(ctx, batches[0], false)
		_ = s.client.Process(ctx, cmd)
		s.finish(ctx, batches[0], cmd)
		return nil
	}
	pipe := s.client.Pipeline()
	cmds := make([]command, len(batches))
	for i, b := range batches {
		cmds[i] = s.command(ctx, b, false)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, b := range batches {
		s.finish(ctx, b, cmds[i])
	}
	return nil
}

// command returns the call of a batch's script by hash or in full.
func (s *server) command(ctx context.Context, b *batch, full bool) command {
	return command{redis.NewCmd(ctx, b.arguments(full, s.now())...)}
}

// finish reads a batch's reply, after what stood in its way was met.
func (s *server) finish(ctx context.Context, b *batch, cmd command) {
	cmd, err := s.retry(ctx, cmd, func(full bool) []any { return b.arguments(full, s.now()) })
	if isSplit(err) && len(b.requests) > 1 {
		s.decideSingly(ctx, b.requests)
		return
	}
	b.answer(cmd, err)
}

// decideSingly decides requests one after another, whose keys are not at one server
// while their slot moves: those of most requests are.
func (s *server) decideSingly(ctx context.Context, requests []*request) {
	for _, r := range requests {
		if r.abandoned() {
			continue
		}
		b := s.batches.Get().(*batch)
		b.slot, b.script = r.slot, r.script()
		b.add(r)
		b.choose()
		cmd, err := s.call(ctx, func(full bool) []any { return b.arguments(full, s.now()) })
		b.answer(cmd, err)
		s.put(b)
	}
}

// answer gives the requests of a batch their answers, from a command that has
// returned an error or a reply.
func (b *batch) answer(cmd command, err error) {
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

// call runs a command whose arguments are made for a script's hash or its full
// text.
func (s *server) call(ctx context.Context, arguments func(full bool) []any) (cmd command, err error) {
	defer recovered(&err)
	cmd = command{redis.NewCmd(ctx, arguments(false)...)}
	_ = s.client.Process(ctx, cmd)
	return s.retry(ctx, cmd, arguments)
}

// retry sends a command again to the server that its slot moved to, and in full to
// one that lacks the script. Neither runs it twice: the first one did not.
func (s *server) retry(ctx context.Context, cmd command, arguments func(full bool) []any) (command, error) {
	err := cmd.Err()
	client := s.client
	if isRedirect(err) {
		if s.moved == nil {
			return cmd, bug(fmt.Errorf("a node of a cluster wants a cluster's client: %w", err))
		}
		client = s.moved
		cmd = command{redis.NewCmd(ctx, arguments(false)...)}
		err = client.Process(ctx, cmd)
	}
	if isNoScript(err) {
		s.greeting.again()
		cmd = command{redis.NewCmd(ctx, arguments(true)...)}
		err = client.Process(ctx, cmd)
	}
	s.noticed(ctx, err)
	return cmd, err
}

// noticed has the server met when it first answers, were it to say that it may not
// be asked, and has the router look where keys are now if an error may mean that
// they have a new master: the server's own client would not, and the router by
// itself does every ten seconds.
func (s *server) noticed(ctx context.Context, err error) {
	if _, answered := answerOf(err); err == nil || answered {
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
