package overredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/protolimit/ratelimit"
	"github.com/protolimit/ratelimit/backend/goredis"

	"github.com/protolimit/ratelimit/bench/rivals"
)

// A limit is what all deciders of an experiment enforce.
type limit struct {
	rate    ratelimit.Rate
	burst   int64
	used    int  // taken of each key before anything is measured
	granted bool // what is expected of a decision then
}

// The limits that are measured. Grants come from buckets in use, neither empty
// nor used up. Ten a second is a limit at which ten charges of a bucket move the
// time when it is empty by a second; at one a minute each charge moves it by more,
// and a new expiry is written with every charge.
var (
	steady    = limit{rate: ratelimit.Rate{Count: 10, Window: time.Second}, burst: 1_000_000, used: 1000, granted: true}
	slowLimit = limit{rate: ratelimit.Rate{Count: 1, Window: time.Minute}, burst: 1_000_000, used: 1000, granted: true}
	lasting   = limit{rate: ratelimit.Rate{Count: 1, Window: time.Hour}, burst: 100, granted: true}
	refusing  = limit{rate: ratelimit.Rate{Count: 1, Window: 24 * time.Hour}, burst: 1, used: 1}
)

func (l limit) rival() rivals.Limit {
	return rivals.Limit{Count: int(l.rate.Count), Window: l.rate.Window, Burst: int(l.burst), Period: 24 * time.Hour}
}

// limits returns the limits of n rules of ours, with a short name of the bucket.
func (l limit) limits(bucket string, n int) ([]*ratelimit.Limit, error) {
	all := make([]*ratelimit.Limit, n)
	for i := range all {
		name := bucket
		if i > 0 {
			name = fmt.Sprintf("%s%d", bucket, i)
		}
		var err error
		if all[i], err = ratelimit.NewLimit(name, ratelimit.Rule{Rate: l.rate, Burst: l.burst}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const (
	shortBucket  = "api"
	methodBucket = "/acme.pay.v1.Payments/Charge#daily"
)

// A scratch is what a caller of ours pools.
type scratch struct {
	charges  []ratelimit.Charge
	verdicts []ratelimit.Verdict
}

// newOurs returns the backend with the token buckets of n rules: one charge each
// for the same key, all in one call.
func (s *stage) newOurs(name string, l limit, n int) (*decider, error) {
	server := s.start()
	client, err := goredis.NewClient(server.URL())
	if err != nil {
		return nil, err
	}
	d, err := s.newOursWith(client, l, shortBucket, n, goredis.WithBudget(s.budget))
	if err != nil {
		return nil, err
	}
	filler, err := s.newOursWith(client, l, shortBucket, n, goredis.WithBudget(timely))
	if err != nil {
		return nil, err
	}
	free := d.close
	d.name, d.server, d.client, d.fill = name, server, client, filler.fill
	d.close = func() {
		free()
		filler.close()
		_ = client.Close()
	}
	return d, s.fill(d, l.used)
}

// newOursWith returns the backend on a client that is there, with nothing taken.
func (s *stage) newOursWith(client redis.UniversalClient, l limit, bucket string, n int, options ...goredis.Option) (*decider, error) {
	backend, err := goredis.New(client, options...)
	if err != nil {
		return nil, err
	}
	return s.newDecider(backend, l, bucket, n)
}

// newDecider returns what decides through a backend, and closes it.
func (s *stage) newDecider(backend ratelimit.Backend, l limit, bucket string, n int) (*decider, error) {
	limits, err := l.limits(bucket, n)
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, len(s.keys))
	for i := range keys {
		keys[i] = goredis.Key(goredis.Text(s.keys[i]))
	}
	take := func(c *scratch, key, units int) (bool, error) {
		if len(c.charges) != n {
			c.charges, c.verdicts = make([]ratelimit.Charge, n), make([]ratelimit.Verdict, n)
		}
		for i := range limits {
			c.charges[i] = ratelimit.Charge{Limit: limits[i], Key: keys[key], Cost: int64(units)}
		}
		err := backend.Take(context.Background(), c.charges, c.verdicts)
		return err == nil && c.verdicts[0].Allowed, err
	}
	return &decider{
		name: nameOurs, granted: l.granted, close: func() { _ = backend.Close() },
		take: func(c *scratch, key int) (bool, error) { return take(c, key, 1) },
		fill: func(key, units int) (bool, error) { return take(&scratch{}, key, units) },
	}, nil
}
