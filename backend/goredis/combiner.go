package goredis

import "sync"

// A combiner sends requests to one server. A request that finds fewer than
// flights batches under way goes out at once, alone if nobody else waits; what
// comes meanwhile waits, and goes out together when a batch returns. There is no
// timer, and no goroutine while nothing is under way. Once its behind is closed
// nothing more goes out.
type combiner struct {
	send    func([]*request) // answers every request
	flights int              // batches under way at most
	most    int              // requests in a batch at most
	room    int              // requests waiting at most
	behind  *behind          // runs flights, until it is closed

	mu       sync.Mutex
	waiting  []*request
	underWay int
}

// submit hands a request over, or returns ErrQueueFull or errClosed.
func (c *combiner) submit(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= c.room {
		return ErrQueueFull
	}
	if c.underWay < c.flights {
		if !c.behind.start(c.fly) {
			return errClosed
		}
		c.underWay++
	}
	c.waiting = append(c.waiting, r)
	return nil
}

// begin starts a flight on the caller's own goroutine if nothing is under way or
// waits. It ends with end.
func (c *combiner) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underWay > 0 || len(c.waiting) > 0 || !c.behind.enter() {
		return false
	}
	c.underWay++
	return true
}

// end ends that flight. What waits by now goes out.
func (c *combiner) end() {
	defer c.behind.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || !c.behind.start(c.fly) {
		c.underWay--
		c.close()
	}
}

// fly sends batches until nothing waits.
func (c *combiner) fly() {
	var batch []*request
	for {
		batch = c.next(batch)
		if len(batch) == 0 {
			return
		}
		c.send(batch)
	}
}

// close has those who wait told that nothing will be sent. c.mu must be held.
func (c *combiner) close() {
	for _, r := range c.waiting {
		r.err = outage(errClosed)
		r.answered()
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
}

// next returns the requests of the next batch, in the place of the last one, or
// none, and with that the end of a flight. Requests whose caller has left are
// not sent, and so not charged.
func (c *combiner) next(last []*request) []*request {
	clear(last)
	batch := last[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind.ended() {
		c.close()
	}
	taken := 0
	for _, r := range c.waiting {
		if len(batch) == c.most {
			break
		}
		taken++
		if r.abandoned() {
			r.answered()
			continue
		}
		batch = append(batch, r)
	}
	rest := copy(c.waiting, c.waiting[taken:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	if len(batch) == 0 {
		c.underWay--
	}
	return batch
}
