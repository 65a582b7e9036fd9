package goredis

import (
	"context"
	"sync"
)

// A behind runs what goes on beside calls or after they have returned. The zero
// behind is not ready; newBehind returns one that is.
type behind struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func newBehind() *behind {
	b := &behind{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// start runs f beside the caller. After close it returns false instead.
func (b *behind) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(f)
	return true
}

// enter tells whether what the caller is about to do is waited for by close, until
// it calls leave; after close it returns false instead.
func (b *behind) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Add(1)
	return true
}

func (b *behind) leave() { b.running.Done() }

// ended tells whether close was called.
func (b *behind) ended() bool { return b.ctx.Err() != nil }

// close ends ctx and waits for what runs.
func (b *behind) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}
