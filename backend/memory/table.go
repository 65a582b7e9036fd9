package memory

import "math/bits"

// A table keeps the states of a shard's keys of one kind, in one array without
// pointers. It is an open-addressing hash table whose slots are in descending
// order of their tags: a key's home is where its tag would be if all were spread
// evenly, and it stands there or a few slots later, as far as those before it
// push it. So a look-up that fails ends as early as one that succeeds, there are
// no tombstones, and a table is copied from front to back.
//
// The shard's mutex guards it.
type table struct {
	words  []uint64
	homes  uint64 // how many slots are homes; those after them take what is pushed
	stride int    // words a slot
	kind   kind
	skip   uint8 // leading bits of the tag, which chose the shard
	sparse bool  // the last tidy found the table nearly empty
	used   int   // slots that hold a key, idle or not
	full   int   // how many of them make the next key wait for a tidy
	hand   int   // where the next search for somebody to evict begins
	shard  *shard
	due    []int64 // for each segment, a time before which none of its slots is due
}

const (
	// loadNum ÷ loadDen of the homes are used before a table grows. At that
	// load a key is two slots from home on average, and hardly ever thirty.
	loadNum, loadDen = 13, 16
	// spill is how many slots follow the homes of a table, at most.
	spill = 48
	// A table grows by one part in growth, so that little of it is empty.
	growth = 6
	// firstSlots is the size of the smallest table.
	firstSlots = 16
)

// noWords is the array of a table that never held a key: one free slot.
var noWords [8]uint64

func (t *table) init(k kind, skip uint8, s *shard) {
	*t = table{words: noWords[:strides[k]], stride: strides[k], kind: k, skip: skip, shard: s}
}

// clear forgets all keys, and frees the memory.
func (t *table) clear() {
	for pos := 0; pos < len(t.words); pos += t.stride {
		if t.words[pos] != 0 {
			t.release(pos)
		}
	}
	t.init(t.kind, t.skip, t.shard)
}

// home returns where the slot of tag would be if nobody were in its way.
func (t *table) home(tag uint64) int {
	slot, _ := bits.Mul64(^tag<<(t.skip&63), t.homes)
	return int(slot) * t.stride
}

// find returns where tag's slot is, or else where it belongs. The last slot is
// always free, which ends the search.
func (t *table) find(tag uint64) (pos int, found bool) {
	words := t.words
	pos = t.home(tag)
	for words[pos] > tag {
		pos += t.stride
	}
	return pos, words[pos] == tag
}

// A gap is a slot that a new key may take.
type gap uint8

const (
	noGap   gap = iota // none before the end of the table
	freeGap            // nobody's
	idleGap            // its key is empty of charges
)

// gapFrom looks for the first gap at pos or later.
func (t *table) gapFrom(pos int, now int64) (int, gap) {
	last := len(t.words) - t.stride
	for ; pos < last; pos += t.stride {
		if t.words[pos] == 0 {
			return pos, freeGap
		}
		if t.kind.idleAt(t.words, pos) <= now {
			return pos, idleGap
		}
	}
	return 0, noGap
}

// open makes a slot for tag at pos by moving the slots from there to the gap,
// which is overwritten, by one. When the slot is due is for the caller to note.
func (t *table) open(pos, gap int, tag uint64) {
	copy(t.words[pos+t.stride:gap+t.stride], t.words[pos:gap])
	for to := pos + t.stride; to <= gap; to += t.stride {
		if to>>segmentBits != (to-t.stride)>>segmentBits {
			t.note(to)
		}
	}
	t.words[pos] = tag
	clear(t.words[pos+1 : pos+t.stride])
}

// remove frees the slot at pos and moves those that it pushed back by one.
func (t *table) remove(pos int) {
	t.release(pos)
	end := pos + t.stride
	for t.words[end] != 0 && t.home(t.words[end]) < end {
		end += t.stride
	}
	copy(t.words[pos:], t.words[pos+t.stride:end])
	end -= t.stride
	clear(t.words[end : end+t.stride])
	for to := pos; to < end; to += t.stride {
		if to>>segmentBits != (to+t.stride)>>segmentBits {
			t.note(to)
		}
	}
	t.used--
}

// release frees what the state at pos keeps elsewhere.
func (t *table) release(pos int) {
	if t.kind == logKind {
		t.shard.slab.free(unpackLog(t.words[pos : pos+t.stride]))
	}
}

// tidy makes room for one key more: it frees the slots that are idle, and if
// there are few of them, copies the table to a larger one.
func (t *table) tidy(now int64) {
	live := t.live(now)
	sparse := live*4 < t.full
	switch {
	case live*16 >= t.full*15:
		t.resize(t.slots()+max(t.slots()/growth, firstSlots), now)
	case sparse && t.sparse:
		// Twice in a row: these are not a crowd's first arrivals.
		t.resize(max(t.slots()/2, firstSlots), now)
	default:
		t.sweep(now)
	}
	t.sparse = sparse
}

func (t *table) slots() int {
	if t.homes == 0 {
		return 0
	}
	return len(t.words) / t.stride
}

// live returns how many slots hold keys that are not idle.
func (t *table) live(now int64) int {
	live := 0
	for pos := 0; pos < len(t.words); pos += t.stride {
		if t.words[pos] != 0 && t.kind.idleAt(t.words, pos) > now {
			live++
		}
	}
	return live
}

// sweep frees the slots that are idle and moves the others together, which moves
// none towards the end.
func (t *table) sweep(now int64) {
	words, next := t.words, 0
	t.used = 0
	for pos := 0; pos < len(words); pos += t.stride {
		tag := words[pos]
		if tag == 0 {
			continue
		}
		if t.kind.idleAt(words, pos) <= now {
			t.release(pos)
			clear(words[pos : pos+t.stride])
			continue
		}
		if to := max(next, t.home(tag)); to < pos {
			copy(words[to:to+t.stride], words[pos:pos+t.stride])
			clear(words[pos : pos+t.stride])
			next = to + t.stride
		} else {
			next = pos + t.stride
		}
		t.used++
	}
	t.noteAll()
}

// resize copies what is not idle to an array of that many slots or a few more.
func (t *table) resize(slots int, now int64) {
	// Growing an empty slice rounds up to what the allocator gives anyway.
	words := append([]uint64(nil), make([]uint64, slots*t.stride)...)
	words = words[:cap(words)/t.stride*t.stride]
	slots = len(words) / t.stride
	from := t.words
	t.homes = uint64(slots - min(spill, slots/4))
	t.full = int(t.homes) * loadNum / loadDen
	t.used, t.hand = 0, 0
	next := 0
	for pos := 0; pos < len(from); pos += t.stride {
		if from[pos] == 0 {
			continue
		}
		if t.kind.idleAt(from, pos) <= now {
			t.release(pos)
			continue
		}
		to := max(next, t.home(from[pos]))
		// The last slot stays free, and one before it for the next key.
		for to >= len(words)-2*t.stride {
			words = append(words, make([]uint64, t.stride*spill)...)
		}
		copy(words[to:to+t.stride], from[pos:pos+t.stride])
		next = to + t.stride
		t.used++
	}
	t.words = words
	t.noteAll()
}
