package overredis

import (
	"math"
	"time"

	"github.com/protolimit/ratelimit/backend/goredis"

	"github.com/protolimit/ratelimit/internal/redistest"

	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/rivals"
)

const (
	memoryPerKey = "memory a key"
	nameMethod   = "ours, named by the method"

	// memoryKeys is how many keys are filled.
	memoryKeys = 100_000
	// memoryRounds is in how many rounds rivals but the first are filled: what
	// they take does not change, and filling them takes long.
	memoryRounds = 1
)

// memoryUse fills a server with keys of each decider, of which each is used once.
func memoryUse() *harness.Experiment {
	return &harness.Experiment{
		Section: Section, Name: "memory", Metrics: []harness.Metric{{Name: memoryPerKey, Unit: "bytes"}},
		Rows: []harness.Row{
			{Label: "memory a TOKEN_BUCKET key", Metric: memoryPerKey, Of: nameOurs, Against: nameRival, Budget: harness.AtMost(1)},
		},
		Open: func(o harness.Options) ([]harness.Contender, func(), error) {
			s := newStage(o)
			s.keys = newKeys(min(memoryKeys, o.Keys))
			named := func(name, bucket string) harness.Contender {
				return s.footprint(name, o.Rounds, func() (*decider, error) { return s.newNamed(bucket) })
			}
			contenders := []harness.Contender{named(nameOurs, shortBucket), named(nameMethod, methodBucket)}
			for i := range rivals.OverRedis {
				r, rounds := &rivals.OverRedis[i], memoryRounds
				if i == 0 {
					rounds = o.Rounds
				}
				contenders = append(contenders, s.footprint(r.Name, rounds, func() (*decider, error) { return s.openRival(r, lasting) }))
			}
			return contenders, s.done, nil
		},
	}
}

// newNamed returns the backend with one rule whose bucket has a name.
func (s *stage) newNamed(bucket string) (*decider, error) {
	server := s.start()
	client, err := goredis.NewClient(server.URL())
	if err != nil {
		return nil, err
	}
	d, err := s.newOursWith(client, lasting, bucket, 1, goredis.WithBudget(timely))
	if err != nil {
		return nil, err
	}
	free := d.close
	d.server = server
	d.close = func() {
		free()
		_ = client.Close()
	}
	return d, nil
}

// footprint measures what a decider's keys take of its server's memory, in some
// rounds. The server ends with the sample.
func (s *stage) footprint(name string, rounds int, open func() (*decider, error)) harness.Contender {
	taken := 0
	return harness.Contender{Name: name, Sample: func() ([]float64, error) {
		taken++
		if taken > rounds {
			return []float64{math.NaN()}, nil
		}
		d, err := open()
		if err != nil {
			return nil, err
		}
		defer s.program.Close()
		defer d.close()
		one := s.keys
		s.keys = one[:1] // connects, and brings the script
		err = s.fill(d, 1)
		s.keys = one
		if err != nil {
			return nil, err
		}
		before := atRest(d.server)
		if err := s.fill(d, 1); err != nil {
			return nil, err
		}
		return []float64{float64(d.server.Stats().Memory-before) / float64(len(s.keys)-1)}, nil
	}}
}

// atRest returns a server's memory once it has not changed for a while: a limiter
// may bring its scripts and open its connections beside its first decision.
func atRest(s *redistest.Server) int64 {
	const still, most = 5, 50 // looks
	memory, same := s.Stats().Memory, 0
	for looks := 0; same < still && looks < most; looks++ {
		time.Sleep(50 * time.Millisecond)
		now := s.Stats().Memory
		same++
		if now != memory {
			memory, same = now, 0
		}
	}
	return memory
}
