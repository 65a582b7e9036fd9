package overredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit/internal/redistest"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

// A decider is what decides, on a server of its own.
type decider struct {
	name   string
	server *redistest.Server
	client redis.UniversalClient // of ours
	// take makes one decision for the key of a number, and returns whether it was
	// granted. The scratch is the caller's own.
	take func(scratch *scratch, key int) (bool, error)
	// fill takes units of a key.
	fill    func(key, units int) (bool, error)
	granted bool // what is expected
	close   func()
}

// A stage is the deciders of an experiment, and what they decide on.
type stage struct {
	options harness.Options
	program redistest.Program // has the servers
	keys    []string
	budget  time.Duration // of our decisions that are measured
	all     []*decider
	err     error // the first
}

// manyKeys is how many keys callers decide on.
const manyKeys = 10_000

func newStage(o harness.Options) *stage {
	return &stage{options: o, keys: newKeys(min(manyKeys, o.Keys)), budget: timely}
}

// newKeys returns n names of users, of 24 bytes.
func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		// Numbers that do not follow one another: Knuth's multiplicative hash.
		keys[i] = fmt.Sprintf("user-%019d", uint64(i)*11400714819323198485>>4)
	}
	return keys
}

// start starts a server.
func (s *stage) start() *redistest.Server { return redistest.Start(&s.program) }

// open adds a decider, unless an earlier one failed.
func (s *stage) open(open func() (*decider, error)) {
	if s.err != nil {
		return
	}
	d, err := open()
	if err != nil {
		s.err = err
		return
	}
	s.all = append(s.all, d)
}

// openRivals adds all rivals under one limit.
func (s *stage) openRivals(l limit) {
	for i := range rivals.OverRedis {
		s.open(func() (*decider, error) { return s.newRival(&rivals.OverRedis[i], l) })
	}
}

// newRival returns another library's limiter, with its keys in use.
func (s *stage) newRival(r *rivals.RedisRival, l limit) (*decider, error) {
	d, err := s.openRival(r, l)
	if err != nil {
		return nil, err
	}
	return d, s.fill(d, l.used)
}

// openRival returns another library's limiter without keys.
func (s *stage) openRival(r *rivals.RedisRival, l limit) (*decider, error) {
	server := s.start()
	limiter, err := r.New(server.Addr, l.rival())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return &decider{
		name: r.Name, server: server, granted: l.granted, close: limiter.Close,
		take: func(_ *scratch, key int) (bool, error) { return limiter.Take(context.Background(), s.keys[key], 1) },
		fill: func(key, units int) (bool, error) {
			return limiter.Take(context.Background(), s.keys[key], units)
		},
	}, nil
}

// newThrice returns the first rival, asked three times for a decision: for
// three keys.
func (s *stage) newThrice(l limit) (*decider, error) {
	d, err := s.newRival(&rivals.OverRedis[0], l)
	if err != nil {
		return nil, err
	}
	once := d.take
	d.name = nameThrice
	d.take = func(scratch *scratch, key int) (bool, error) {
		for i := range 3 {
			if granted, err := once(scratch, (key+i)%len(s.keys)); err != nil || !granted {
				return granted, err
			}
		}
		return true, nil
	}
	return d, nil
}

// fillers is how many callers fill keys.
const fillers = 64

// fill takes units of every key.
func (s *stage) fill(d *decider, units int) error {
	errs := make([]error, fillers)
	var wg sync.WaitGroup
	for i := range fillers {
		wg.Go(func() {
			for key := i; key < len(s.keys) && errs[i] == nil; key += fillers {
				var granted bool
				if granted, errs[i] = d.fill(key, units); errs[i] == nil && !granted {
					errs[i] = errUnexpected
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: fill: %w", d.name, err)
	}
	return nil
}

// contenders returns the deciders with as many callers each.
func (s *stage) contenders(callers int) ([]harness.Contender, func(), error) {
	if s.err != nil {
		s.done()
		return nil, nil, s.err
	}
	l := newLoad(callers, len(s.keys))
	contenders := make([]harness.Contender, len(s.all))
	for i, d := range s.all {
		contenders[i] = harness.Contender{Name: d.name, Sample: func() ([]float64, error) {
			return l.sample(d, s.options.Busy)
		}}
	}
	return contenders, s.done, nil
}

// done frees all.
func (s *stage) done() {
	for _, d := range s.all {
		d.close()
	}
	s.program.Close()
}

// timely is the budget of our decisions where many callers are measured, in place
// of the default: on a busy machine a thread may wait longer for a processor, and
// every decision shall count. One caller has the default, with which calls go out
// from their own goroutines.
const (
	timely        = 400 * time.Millisecond
	defaultBudget = 10 * time.Millisecond
)
