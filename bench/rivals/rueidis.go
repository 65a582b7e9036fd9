package rivals

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// rueidisWindow is a fixed window on the client rueidis, which gathers what is
// sent at the same time by itself. It runs the same three commands of Redis for a
// decision as rueidislimiter, which is part of rueidis's repository but is a
// module that cannot be pinned here.
type rueidisWindow struct {
	client rueidis.Client
	limit  int64
	window time.Duration
}

// windowScript counts in a key, and keeps in another when its window ends.
var windowScript = rueidis.NewLuaScript(`
local ends = tonumber(redis.call('GET', KEYS[2]))
if not ends or ends < tonumber(ARGV[2]) then
  ends = tonumber(ARGV[3])
  redis.call('SET', KEYS[1], 0, 'PXAT', ends + 1000)
  redis.call('SET', KEYS[2], ends, 'PXAT', ends + 1000)
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), ends}
`)

func newRueidis(addr string, l Limit) (RedisLimiter, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	return &rueidisWindow{client, int64(l.Burst), l.Period}, err
}

func (w *rueidisWindow) Take(ctx context.Context, key string, n int) (bool, error) {
	now := time.Now()
	name := "w:{" + key + "}"
	answer, err := windowScript.Exec(ctx, w.client, []string{name, name + ":e"}, []string{
		strconv.Itoa(n), strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(w.window).UnixMilli(), 10),
	}).AsIntSlice()
	return err == nil && answer[0] <= w.limit, err
}

func (w *rueidisWindow) Close() { w.client.Close() }
