package memory

import (
	"math"
	"sync/atomic"
)

// A watch knows where something may be taken that counts no more, for whoever
// finds none left.
type watch struct {
	// due has for each shard a time before which it has nothing to give. A
	// shard's mutex guards changes; anybody may read.
	due   []atomic.Int64
	first kind // the tables from this one on have what is watched

	// quiet is a time before which no shard has anything to give. Whoever has
	// looked at all sets it, unless changes says that one was lowered meanwhile.
	quiet   atomic.Int64
	changes atomic.Uint64
	cursor  atomic.Uint32 // the shard where the next search begins
}

func (w *watch) init(first kind, shards int) {
	w.first = first
	w.due = make([]atomic.Int64, shards)
	for i := range w.due {
		w.due[i].Store(math.MaxInt64)
	}
}

// lower makes a shard due at a time, at the latest.
func (w *watch) lower(shard int, at int64) {
	if at >= w.due[shard].Load() {
		return
	}
	w.due[shard].Store(at)
	w.changes.Add(1)
	if at < w.quiet.Load() {
		w.quiet.Store(0)
	}
}

// look has collect called for each shard that is due, until it finds something
// or says that it is enough, and tells whether it found any.
func (w *watch) look(now int64, collect func(shard int) (found, enough bool)) bool {
	if now < w.quiet.Load() {
		return false
	}
	changes := w.changes.Load()
	soonest := int64(math.MaxInt64)
	i := int(w.cursor.Load())
	for range w.due {
		if w.due[i].Load() <= now {
			if found, enough := collect(i); found || enough {
				w.cursor.Store(uint32(i))
				return found
			}
		}
		soonest = min(soonest, w.due[i].Load())
		i++
		if i == len(w.due) {
			i = 0
		}
	}
	w.quiet.Store(soonest)
	if w.changes.Load() != changes {
		w.quiet.Store(0)
	}
	return false
}

// A table is watched in segments of so many words, some dozens of slots: few
// enough for one to be searched in no time, and so many that what is known of
// each takes next to no memory.
const segmentBits = 8

// entryWork is how many slots can be looked at while one entry, which is
// anywhere in memory, is dropped.
const entryWork = 4

// note takes note of when the slot at pos is due. Whatever makes it earlier than
// it was, or moves it to another segment, has to be noted.
func (t *table) note(pos int) {
	at := t.kind.dueAt(t.words, pos)
	due := &t.due[pos>>segmentBits]
	if at >= *due {
		return
	}
	*due = at
	t.shard.keys.lower(t.shard.number, at)
	if t.kind == logKind {
		t.shard.slab.lower(t.shard.number, at)
	}
}

// noteAll forgets what was noted, and notes all slots.
func (t *table) noteAll() {
	if n := (len(t.words)-1)>>segmentBits + 1; n != len(t.due) {
		t.due = make([]int64, n)
	}
	for i := range t.due {
		t.due[i] = math.MaxInt64
	}
	for pos := 0; pos < len(t.words); pos += t.stride {
		if t.words[pos] != 0 {
			t.note(pos)
		}
	}
}

// collect forgets what counts no more in a segment, and notes what is due next.
// It stops when left is used up, from which it takes the slots that it looks at,
// and what entries are worth.
func (t *table) collect(segment int, now int64, left *int) {
	due := int64(math.MaxInt64)
	pos := (segment<<segmentBits + t.stride - 1) / t.stride * t.stride
	for pos < len(t.words) && pos>>segmentBits == segment {
		if *left <= 0 {
			return
		}
		*left--
		if t.words[pos] != 0 {
			if t.kind.idleAt(t.words, pos) <= now {
				t.remove(pos) // which puts the next one here
				continue
			}
			if t.kind == logKind && t.kind.dueAt(t.words, pos) <= now {
				*left -= entryWork * t.shard.trim(t.words[pos:pos+t.stride], now)
			}
			due = min(due, t.kind.dueAt(t.words, pos))
		}
		pos += t.stride
	}
	t.due[segment] = due
}

// collect forgets something of what w watches that counts no more, and tells
// whether there was any. What it looks at is taken from left.
func (s *shard) collect(w *watch, now int64, left *int) (found bool) {
	if w.due[s.number].Load() > now {
		return false
	}
	s.recount(func() { found = s.collectFirst(w, now, left) })
	s.setDue()
	return found
}

// collectFirst is collect, without its accounts.
func (s *shard) collectFirst(w *watch, now int64, left *int) bool {
	before := s.held(w)
	for k := w.first; k < kinds; k++ {
		t := &s.tables[k]
		for i := range t.due {
			if t.due[i] > now {
				continue
			}
			t.collect(i, now, left)
			if s.held(w) < before {
				return true
			}
			if *left <= 0 {
				return false
			}
		}
	}
	return false
}

// held returns how much s has of what w watches.
func (s *shard) held(w *watch) int {
	if w.first == logKind {
		return s.slab.used
	}
	return s.used()
}

// setDue tells the watches what the tables know.
func (s *shard) setDue() {
	due := int64(math.MaxInt64)
	for k := kinds; k > 0; k-- {
		for _, at := range s.tables[k-1].due {
			due = min(due, at)
		}
		if k-1 == logKind {
			s.slab.due[s.number].Store(due)
		}
	}
	s.keys.due[s.number].Store(due)
}
