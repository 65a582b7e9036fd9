package memory

import (
	"sync"
	"sync/atomic"
)

// An arena has the entries of all logs, in chunks without pointers, which shards
// take and give back a few at a time. An entry is four words, and is named by
// its index, which is never 0.
//
//	time, µs since 1970
//	next 32 | previous 32
//	cost
//	serial number
//
// Any shard may have any entry, so the memory is what the bound says, wherever
// the entries were before. An entry that was taken belongs to its shard, whose
// mutex guards it; mu guards the others.
type arena struct {
	watch
	left atomic.Int64 // entries that shards may still take, less each one's first

	mu        sync.Mutex
	chunks    []atomic.Pointer[chunk]
	vacant    uint32 // first of those that were given back; the others follow by next
	untouched uint32 // entries from this one on were never used
	out       int    // entries that shards have
	batch     int    // how many are taken at once
}

type chunk [chunkEntries * entryWords]uint64

const (
	entryWords   = 4
	chunkEntries = 1 << 10
	// mostBatch is enough for shards to meet at the arena's mutex rarely.
	mostBatch = 16
	// setAside is which part of the entries shards have in store, at most.
	setAside = 16
)

func (a *arena) init(maxEntries, shards int) {
	// Each shard's first entry is not counted, so that no shard depends on
	// another.
	a.left.Store(int64(max(0, maxEntries-shards)))
	a.batch = min(max(maxEntries/shards/setAside, 1), mostBatch)
	a.watch.init(logKind, shards)
	a.chunks = make([]atomic.Pointer[chunk], max(maxEntries, shards)/chunkEntries+1)
	a.untouched = 1
}

func (a *arena) at(e uint32) *[entryWords]uint64 {
	c := a.chunks[e/chunkEntries].Load()
	return (*[entryWords]uint64)(c[e%chunkEntries*entryWords:])
}

func (a *arena) time(e uint32) int64           { return int64(a.at(e)[0]) }
func (a *arena) setTime(e uint32, t int64)     { a.at(e)[0] = uint64(t) }
func (a *arena) next(e uint32) uint32          { return uint32(a.at(e)[1] >> 32) }
func (a *arena) previous(e uint32) uint32      { return uint32(a.at(e)[1]) }
func (a *arena) cost(e uint32) uint64          { return a.at(e)[2] }
func (a *arena) setCost(e uint32, cost uint64) { a.at(e)[2] = cost }
func (a *arena) serial(e uint32) uint64        { return a.at(e)[3] }

func (a *arena) link(e, next, previous uint32) {
	a.at(e)[1] = uint64(next)<<32 | uint64(previous)
}

// take returns a list of a few entries, of none if none is left. A shard that
// has none gets one all the same.
func (a *arena) take(hasNone bool) (head uint32, n int) {
	if !hasNone && a.left.Load() <= 0 {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	free := 0
	if hasNone {
		free = 1
	}
	n = min(a.batch-free, int(a.left.Load()))
	a.left.Add(-int64(n))
	n += free
	for range n {
		e := a.vacant
		if e != 0 {
			a.vacant = a.next(e)
		} else {
			e = a.untouched
			if c := &a.chunks[e/chunkEntries]; c.Load() == nil {
				c.Store(new(chunk))
			}
			a.untouched++
		}
		a.link(e, head, 0)
		head = e
	}
	a.out += n
	return head, n
}

// give takes back a list of n entries from head to tail. last tells that its
// shard has no other.
func (a *arena) give(head, tail uint32, n int, last bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link(tail, a.vacant, 0)
	a.vacant = head
	a.out -= n
	if last {
		n--
	}
	a.left.Add(int64(n))
	if a.out > 0 {
		return
	}
	// Nobody has an entry. The first chunk stays for the next who comes.
	for i := a.untouched / chunkEntries; i > 0; i-- {
		a.chunks[i].Store(nil)
	}
	a.vacant, a.untouched = 0, 1
}

// bytes returns how many bytes the chunks have.
func (a *arena) bytes() int {
	bytes := 0
	for i := range a.chunks {
		if a.chunks[i].Load() != nil {
			bytes += 8 * len(chunk{})
		}
	}
	return bytes
}
