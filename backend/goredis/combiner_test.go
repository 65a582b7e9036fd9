package goredis

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/protolimit/ratelimit"
)

// A gate is a sender whose batches stay under way until they are let go.
type gate struct {
	sent chan []int64 // the numbers of each batch, when it is sent
	open chan struct{}
}

func newGate() *gate { return &gate{sent: make(chan []int64, 100), open: make(chan struct{})} }

func (g *gate) send(batch []*request) {
	numbers := make([]int64, len(batch))
	for i, r := range batch {
		numbers[i] = r.buckets[0].units
	}
	g.sent <- numbers
	<-g.open
	for _, r := range batch {
		r.answered()
	}
}

// next returns the next batch that is sent.
func (g *gate) next(t *testing.T) []int64 {
	t.Helper()
	select {
	case numbers := <-g.sent:
		return numbers
	case <-time.After(10 * time.Second):
		t.Fatal("no batch is sent")
		return nil
	}
}

// none fails the test if a batch is sent.
func (g *gate) none(t *testing.T) {
	t.Helper()
	select {
	case numbers := <-g.sent:
		t.Errorf("batch %v is sent, want none", numbers)
	default:
	}
}

// numbered returns a request that says its number.
func numbered(n int64) *request {
	r := newRequest()
	r.add("key", &ratelimit.Charge{Cost: n})
	return r
}

// give submits requests with the given numbers.
func (c *combiner) give(t *testing.T, numbers ...int64) []*request {
	t.Helper()
	var given []*request
	for _, n := range numbers {
		r := numbered(n)
		if err := c.submit(r); err != nil {
			t.Fatalf("submit %d: %v", n, err)
		}
		given = append(given, r)
	}
	return given
}

// idle tells whether nothing waits and nothing is under way.
func (c *combiner) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0 && c.underWay == 0
}

func (c *combiner) awaitIdle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !c.idle(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests wait and %d batches are under way, want none", len(c.waiting), c.underWay)
		}
	}
}

func wantBatch(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the batch is %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("the batch is %v, want %v", got, want)
		}
	}
}

func TestCombinerSendsAtOnceThenTogether(t *testing.T) {
	g := newGate()
	c := &combiner{send: g.send, flights: 2, most: 3, room: 100, behind: newBehind()}
	c.give(t, 1)
	wantBatch(t, g.next(t), 1)
	c.give(t, 2)
	wantBatch(t, g.next(t), 2)
	c.give(t, 3, 4, 5, 6, 7)
	g.none(t)
	g.open <- struct{}{}
	wantBatch(t, g.next(t), 3, 4, 5)
	g.none(t)
	g.open <- struct{}{}
	wantBatch(t, g.next(t), 6, 7)
	close(g.open)
	c.awaitIdle(t)
	c.give(t, 8)
	wantBatch(t, g.next(t), 8)
	c.awaitIdle(t)
}

func TestCombinerRefusesWhenTheQueueIsFull(t *testing.T) {
	g := newGate()
	c := &combiner{send: g.send, flights: 1, most: 10, room: 2, behind: newBehind()}
	c.give(t, 1)
	wantBatch(t, g.next(t), 1)
	c.give(t, 2, 3)
	for range 3 {
		r := numbered(4)
		if err := c.submit(r); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("submit to a full queue returns %v, want %v", err, ErrQueueFull)
		}
		r.free()
	}
	close(g.open)
	wantBatch(t, g.next(t), 2, 3)
	c.awaitIdle(t)
	c.give(t, 5)
	wantBatch(t, g.next(t), 5)
	c.awaitIdle(t)
}

func TestCombinerDoesNotSendWhatWasLeft(t *testing.T) {
	g := newGate()
	c := &combiner{send: g.send, flights: 1, most: 2, room: 100, behind: newBehind()}
	c.give(t, 1)
	wantBatch(t, g.next(t), 1)
	given := c.give(t, 2, 3, 4, 5, 6)
	for _, i := range []int{0, 2} {
		if !given[i].leave() {
			t.Fatal("a request that waits is answered")
		}
	}
	g.open <- struct{}{}
	wantBatch(t, g.next(t), 3, 5)
	given[4].leave()
	g.open <- struct{}{}
	c.awaitIdle(t)
	g.none(t)
	close(g.open)
	c.give(t, 7)
	wantBatch(t, g.next(t), 7)
	c.awaitIdle(t)
}

// A room of callers who have left is none for others only until a batch returns.
func TestCombinerMakesRoomOfWhatWasLeft(t *testing.T) {
	g := newGate()
	c := &combiner{send: g.send, flights: 1, most: 10, room: 2, behind: newBehind()}
	c.give(t, 1)
	wantBatch(t, g.next(t), 1)
	for _, r := range c.give(t, 2, 3) {
		r.leave()
	}
	close(g.open)
	c.awaitIdle(t)
	c.give(t, 4)
	wantBatch(t, g.next(t), 4)
	c.awaitIdle(t)
}

// An echo answers each request with its own number, and finds out what goes
// wrong.
type echo struct {
	t        *testing.T
	c        *combiner
	underWay atomic.Int64
	sent     sync.Map // number -> true
}

func (e *echo) send(batch []*request) {
	if n := e.underWay.Add(1); n > int64(e.c.flights) {
		e.t.Errorf("%d batches are under way, want at most %d", n, e.c.flights)
	}
	if len(batch) == 0 || len(batch) > e.c.most {
		e.t.Errorf("a batch has %d requests, want 1 to %d", len(batch), e.c.most)
	}
	if rand.IntN(4) == 0 {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
	}
	last := map[int64]int64{}
	for _, r := range batch {
		n := r.buckets[0].units
		if _, twice := e.sent.LoadOrStore(n, true); twice {
			e.t.Errorf("request %d is sent twice", n)
		}
		if caller := n >> 32; n <= last[caller] {
			e.t.Errorf("request %d is sent after %d", n, last[caller])
		} else {
			last[caller] = n
		}
		r.buckets[0].verdict.Remaining = n
	}
	e.underWay.Add(-1)
	for _, r := range batch {
		r.answered()
	}
}

// call submits a request and waits for the answer or leaves.
func (e *echo) call(n int64, random *rand.Rand) {
	r := numbered(n)
	if err := e.c.submit(r); err != nil {
		r.free()
		if !errors.Is(err, ErrQueueFull) {
			e.t.Errorf("submit: %v", err)
		}
		return
	}
	switch random.IntN(3) {
	case 0:
		if r.leave() {
			return
		}
	case 1:
		timer := time.NewTimer(time.Duration(random.IntN(50)) * time.Microsecond)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			if r.leave() {
				return
			}
		}
	default:
		<-r.done
	}
	if got := r.buckets[0].verdict.Remaining; got != n {
		e.t.Errorf("request %d is answered by %d", n, got)
	}
	if len(r.done) > 0 {
		e.t.Errorf("request %d is answered twice", n)
	}
	r.free()
}

// Callers come and leave at random, and requests are used again at once: each
// caller who stays has the answer to its own.
func TestCombinerAnswersEachOnce(t *testing.T) {
	for _, c := range []*combiner{
		{flights: 1, most: 1, room: 4, behind: newBehind()},
		{flights: 2, most: 7, room: 16, behind: newBehind()},
		{flights: 3, most: 512, room: 10_000, behind: newBehind()},
	} {
		e := &echo{t: t, c: c}
		c.send = e.send
		var callers sync.WaitGroup
		for caller := range int64(32) {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(caller), 1))
				for i := range int64(500) {
					e.call((caller+1)<<32+i+1, random)
				}
			})
		}
		callers.Wait()
		c.awaitIdle(t)
	}
}

// Whoever comes second frees the request, and nobody else.
func TestRequestIsLeftOrAnswered(t *testing.T) {
	left := 0
	for range 20_000 {
		r := &request{done: make(chan struct{}, 1)}
		answered := make(chan struct{})
		go func() {
			r.answered()
			close(answered)
		}()
		gone := r.leave()
		<-answered
		if gone {
			left++
		}
		if len(r.done) > 0 {
			t.Fatalf("left %t: an answer waits that nobody will read", gone)
		}
	}
	if left == 0 {
		t.Error("no request was left before its answer, want some")
	}
}
