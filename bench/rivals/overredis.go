package rivals

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// A RedisLimiter decides by key, in Redis.
type RedisLimiter interface {
	// Take asks for n units, and tells whether they were granted. Libraries that
	// count one by one, or by windows that n does not matter to, take one.
	Take(ctx context.Context, key string, n int) (bool, error)
	// Close ends its connections.
	Close()
}

// A RedisRival makes limiters of one library on the server at an address.
type RedisRival struct {
	Name   string
	Module string
	New    func(addr string, l Limit) (RedisLimiter, error)
}

// OverRedis are the rivals that decide in Redis, in the order of the reports.
// The first is the one that others are measured by.
var OverRedis = []RedisRival{
	{"redis_rate", "github.com/go-redis/redis_rate/v10", newRedisRate},
	{"throttled", "github.com/throttled/throttled/v2", newThrottledRedis},
	{"go-limiter", "github.com/sethvargo/go-redisstore", newGoLimiterRedis},
	{"ulule", "github.com/ulule/limiter/v3", newUluleRedis},
	{"window on rueidis", "github.com/redis/rueidis", newRueidis},
}

// RedisModules are the paths of their modules, and of the client that most use.
func RedisModules() []string {
	var paths []string
	for i := range OverRedis {
		paths = append(paths, OverRedis[i].Module)
	}
	return append(paths, "github.com/redis/go-redis/v9")
}

// newClient returns go-redis's client as it is without settings.
func newClient(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

// redisRate is redis_rate's cell rate algorithm.
type redisRate struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func newRedisRate(addr string, l Limit) (RedisLimiter, error) {
	client := newClient(addr)
	return &redisRate{client, redis_rate.NewLimiter(client), redis_rate.Limit{Rate: l.Count, Period: l.Window, Burst: l.Burst}}, nil
}

func (r *redisRate) Take(ctx context.Context, key string, n int) (bool, error) {
	answer, err := r.limiter.AllowN(ctx, key, r.limit, n)
	return err == nil && answer.Allowed == n, err
}

func (r *redisRate) Close() { _ = r.client.Close() }

// throttledRedis is throttled's cell rate algorithm on its store for go-redis:
// it reads, computes, and writes if nobody else did meanwhile.
type throttledRedis struct {
	client  *redis.Client
	limiter *throttled.GCRARateLimiterCtx
}

func newThrottledRedis(addr string, l Limit) (RedisLimiter, error) {
	client := newClient(addr)
	store, err := goredisstore.NewCtx(client, "t:")
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(l.Count, l.Window), MaxBurst: l.Burst - 1,
	})
	return &throttledRedis{client, limiter}, err
}

func (t *throttledRedis) Take(ctx context.Context, key string, n int) (bool, error) {
	limited, _, err := t.limiter.RateLimitCtx(ctx, key, n)
	return err == nil && !limited, err
}

func (t *throttledRedis) Close() { _ = t.client.Close() }

// goLimiterRedis is go-redisstore, the store of go-limiter.
type goLimiterRedis struct {
	pool  *redigo.Pool
	store limiter.Store
}

// newGoLimiterRedis gives the store a pool as large as go-redis's for two
// processors. The one that it makes by itself dials for each decision.
func newGoLimiterRedis(addr string, l Limit) (RedisLimiter, error) {
	const connections = 20
	pool := &redigo.Pool{
		MaxIdle: connections, MaxActive: connections, Wait: true,
		DialContext: func(ctx context.Context) (redigo.Conn, error) {
			return redigo.DialContext(ctx, "tcp", addr, redigo.DialConnectTimeout(time.Second))
		},
	}
	store, err := redisstore.NewWithPool(&redisstore.Config{Tokens: uint64(l.Burst), Interval: l.Period}, pool)
	return &goLimiterRedis{pool, store}, err
}

func (g *goLimiterRedis) Take(ctx context.Context, key string, _ int) (bool, error) {
	_, _, _, ok, err := g.store.Take(ctx, key)
	return ok && err == nil, err
}

func (g *goLimiterRedis) Close() {
	_ = g.store.Close(context.Background())
	_ = g.pool.Close()
}

// ululeRedis is ulule's fixed window on its store for go-redis.
type ululeRedis struct {
	client  *redis.Client
	limiter *ulule.Limiter
}

func newUluleRedis(addr string, l Limit) (RedisLimiter, error) {
	client := newClient(addr)
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "l"})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &ululeRedis{client, ulule.New(store, ulule.Rate{Period: l.Period, Limit: int64(l.Burst)})}, nil
}

func (u *ululeRedis) Take(ctx context.Context, key string, n int) (bool, error) {
	answer, err := u.limiter.Increment(ctx, key, int64(n))
	return err == nil && !answer.Reached, err
}

func (u *ululeRedis) Close() { _ = u.client.Close() }
