package breaker

import (
	"context"
	"sync"
)

// A behind runs what goes on beside calls or after they have returned.
type behind struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// open makes the zero behind ready.
func (b *behind) open() { b.ctx, b.cancel = context.WithCancel(context.Background()) }

// start runs f beside the caller, if close has not been called.
func (b *behind) start(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(func() { f(b.ctx) })
	}
	return !b.closed
}

// close ends the context of what runs, and waits for it.
func (b *behind) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}
