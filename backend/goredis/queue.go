package goredis

import "sync"

// A queue sends together what waits, once what was sent before has been answered.
// It is a combiner with one flight, of what nobody takes back.
type queue[T any] struct {
	send  func([]T)         // answers every one
	room  int               // waiting at most
	start func(func()) bool // runs a flight, or returns false: nothing is sent any more

	mu      sync.Mutex
	waiting []T
	flying  bool
}

// submit hands one over, or returns ErrQueueFull or errClosed.
func (q *queue[T]) submit(one T) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.room {
		return ErrQueueFull
	}
	if !q.flying && !q.start(q.fly) {
		return errClosed
	}
	q.flying = true
	q.waiting = append(q.waiting, one)
	return nil
}

// fly sends until nothing waits.
func (q *queue[T]) fly() {
	for {
		q.mu.Lock()
		waiting := q.waiting
		q.waiting = nil
		q.flying = len(waiting) > 0
		q.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		q.send(waiting)
	}
}
