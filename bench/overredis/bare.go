package overredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/backend/goredis"
)

// newBare returns a caller that sends what a decider of ours sends for each key,
// through its client to its server, and looks no further at the answer than
// whether it is one.
func (s *stage) newBare(ours *decider) (*decider, error) {
	commands, err := s.listen(ours)
	if err != nil {
		return nil, err
	}
	return &decider{
		name: nameBare, server: ours.server, granted: true, close: func() {},
		take: func(_ *scratch, key int) (bool, error) {
			cmd := redis.NewCmd(context.Background(), commands[key]...)
			_ = ours.client.Process(context.Background(), cmd) // as cmd has it
			answer, err := cmd.Text()
			return len(answer) > 8, err
		},
	}, nil
}

// listen returns the command that decides on each key.
func (s *stage) listen(ours *decider) ([][]any, error) {
	client, err := goredis.NewClient(ours.server.URL())
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // what it was for has been done
	heard := &hook{}
	client.AddHook(heard)
	d, err := s.newOursWith(client, steady, shortBucket, 1, goredis.WithBudget(timely))
	if err != nil {
		return nil, err
	}
	defer d.close()
	commands := make([][]any, len(s.keys))
	for i := range commands {
		if _, err := d.fill(i, 1); err != nil {
			return nil, err
		}
		if commands[i] = heard.last; commands[i] == nil {
			return nil, errors.New("a decision sent no script")
		}
	}
	return commands, nil
}

// A hook keeps the last command that decided.
type hook struct{ last []any }

// DialHook does nothing.
func (*hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does nothing.
func (*hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook keeps a copy: what a decision sends is used again.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if cmd.Name() == "evalsha" && len(args) == 5 {
			if key, ok := args[3].(*string); ok { // those of heartbeats are no pointers
				h.last = []any{args[0], args[1], args[2], *key, string(args[4].([]byte))}
			}
		}
		return next(ctx, cmd)
	}
}
