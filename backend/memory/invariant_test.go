package memory

import "pgregory.net/rapid"

// checkInvariants looks at what all else relies on.
func checkInvariants(t rapid.TB, b *Backend, maxKeys, maxEntries int) {
	keys, entries, out := 0, 0, 0
	for i := range b.shards {
		s := &b.shards[i]
		listed := 0
		for k := range s.tables {
			tb := &s.tables[k]
			used := 0
			for pos := 0; pos < len(tb.words); pos += tb.stride {
				tag := tb.words[pos]
				if tag == 0 {
					continue
				}
				used++
				if at, found := tb.find(tag); !found || at != pos {
					t.Fatalf("shard %d, table %d: %x at %d is found at %d, %v", i, k, tag, pos, at, found)
				}
				due := tb.kind.dueAt(tb.words, pos)
				if noted := tb.due[pos>>segmentBits]; noted > due || b.keys.due[i].Load() > noted {
					t.Fatalf("shard %d, table %d: due at %d, noted %d, by the shard %d", i, k, due, noted, b.keys.due[i].Load())
				}
				if noted := b.log.due[i].Load(); tb.kind == logKind && noted > due {
					t.Fatalf("shard %d: a log is due at %d, noted %d", i, due, noted)
				}
				if b.shard(tag) != s {
					t.Fatalf("shard %d has %x", i, tag)
				}
				if tb.kind == logKind {
					listed += checkLog(t, s, unpackLog(tb.words[pos:pos+tb.stride]))
				}
			}
			if used != tb.used {
				t.Fatalf("shard %d, table %d: %d slots used, counted %d", i, k, used, tb.used)
			}
			if tb.words[len(tb.words)-tb.stride] != 0 {
				t.Fatalf("shard %d, table %d: the last slot is used", i, k)
			}
		}
		if listed != s.slab.used {
			t.Fatalf("shard %d: %d entries in logs, %d used", i, listed, s.slab.used)
		}
		keys += max(s.used()-1, 0)
		entries += max(s.slab.used+s.slab.spares-1, 0)
		out += s.slab.used + s.slab.spares
	}
	if left := int(b.keys.left.Load()); left+keys+len(b.shards) != maxKeys {
		t.Fatalf("%d keys are counted and %d left of %d", keys, left, maxKeys)
	}
	if left := int(b.log.left.Load()); left+entries != max(0, maxEntries-len(b.shards)) {
		t.Fatalf("%d entries are counted and %d left of %d", entries, left, maxEntries)
	}
	if out != b.log.out {
		t.Fatalf("shards have %d entries, counted %d", out, b.log.out)
	}
}

func checkLog(t rapid.TB, s *shard, l log) (count int) {
	used, previous, time := uint64(0), uint32(0), int64(0)
	for e := l.head; e != 0; e = s.slab.next(e) {
		if s.slab.previous(e) != previous || s.slab.cost(e) == 0 || s.slab.time(e) < time && count > 0 {
			t.Fatalf("entry %d of %+v: previous %d, cost %d, time %d after %d", e, l, s.slab.previous(e), s.slab.cost(e), s.slab.time(e), time)
		}
		used += s.slab.cost(e)
		previous, time = e, s.slab.time(e)
		count++
	}
	if span := time - s.slab.time(l.head); count > 0 && l.span != span {
		t.Fatalf("%+v spans %d", l, span)
	}
	if count != l.count || used != l.used || previous != l.tail {
		t.Fatalf("%+v has %d entries that cost %d, the last is %d", l, count, used, previous)
	}
	return count
}
