package rivals

import (
	"context"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// ululeWindow is ulule's fixed window on its store in memory. A window begins
// with the first call of its key.
type ululeWindow struct{ limiter *limiter.Limiter }

func newUlule(l Limit) (Limiter, error) {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "l", CleanUpInterval: l.Period})
	return ululeWindow{limiter.New(store, limiter.Rate{Period: l.Period, Limit: int64(l.Burst)})}, nil
}

func (u ululeWindow) Take(key string) bool {
	answer, err := u.limiter.Get(context.Background(), key)
	return err == nil && !answer.Reached
}

// Close leaves the goroutine to the store's finalizer.
func (ululeWindow) Close() {}
