package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// The least asked for go first, and the bytes stay within the bound.
func TestMemoryIsBounded(t *testing.T) {
	const most = 64 * 100 << 10
	grown := int64(0)
	m := newMemory(most, func(bytes int) { grown += int64(bytes) })
	value := bytes.Repeat([]byte{1}, 1000)
	hot := []byte("hot")
	_, writes := m.get(hot)
	m.keep(hot, value, writes)
	for i := range 100_000 {
		key := fmt.Appendf(nil, "key %d", i)
		_, writes := m.get(key)
		m.keep(key, value, writes)
		if v, _ := m.get(hot); v == nil {
			t.Fatalf("after %d others, what is asked for all the time is forgotten", i)
		}
	}
	total, kept := int64(0), 0
	for i := range m.shards {
		s := &m.shards[i]
		total += s.held()
		kept += len(s.values)
		var counted int64
		for _, c := range s.chunks {
			counted += int64(cap(c))
		}
		if counted != s.bytes {
			t.Errorf("shard %d counts %d bytes and has %d", i, s.bytes, counted)
		}
	}
	if total > most || kept < most/1200*3/4 {
		t.Errorf("%d values in %d bytes are kept, the bound is %d", kept, total, most)
	}
	if grown < total || grown > most+growBytes {
		t.Errorf("it has grown by %d bytes, has %d, and the bound is %d", grown, total, most)
	}
}

// Who goes through a large table once does not push out what others ask for, and
// what is asked for again comes in all the same.
func TestMemoryOutlastsAScan(t *testing.T) {
	m := newMemory(64*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	ask := func(name string, i int) (known bool) {
		key := fmt.Appendf(nil, "%s %d", name, i)
		v, writes := m.get(key)
		if v == nil {
			m.keep(key, value, writes)
		}
		return v != nil
	}
	const others = 3000
	for i := range others {
		ask("other", i)
	}
	for i := range 100_000 {
		ask("scanned", i)
	}
	known := 0
	for i := range others {
		if ask("other", i) {
			known++
		}
	}
	if known < others*9/10 {
		t.Errorf("%d of %d values are left after a scan", known, others)
	}
	for range 2 {
		ask("new", 0)
	}
	if !ask("new", 0) {
		t.Error("what is asked for again and again does not come in")
	}
}

// Of keys that are all asked for equally often, few push out others: it would be in
// vain.
func TestMemoryChangesLittleInVain(t *testing.T) {
	const keys, most = 10_000, memoryShards * 100 << 10
	m := newMemory(most, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	var asked, missed, kept int
	for i := range 20 * keys {
		key := fmt.Appendf(nil, "key %d", random.IntN(keys))
		v, writes := m.get(key)
		if v == nil {
			m.keep(key, value, writes)
		}
		if i < 2*keys {
			continue
		}
		asked++
		if v == nil {
			missed++
			if v, _ := m.get(key); v != nil {
				kept++
			}
		}
	}
	if kept > missed/3 || missed > asked*6/10 {
		t.Errorf("of %d that were asked for %d were not there, and %d of these were kept", asked, missed, kept)
	}
}

// Values that are written again and again, and fit, are all known.
func TestMemoryOutlastsWrites(t *testing.T) {
	const most, values = 64 * 100 << 10, 3000
	m := newMemory(most, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	for range 100_000 {
		k := key(random.IntN(values))
		m.forget(k)
		m.replace(k, value)
	}
	known := 0
	for i := range values {
		if v, _ := m.get(key(i)); v != nil {
			known++
		}
	}
	if known < values*98/100 {
		t.Errorf("%d of %d values are known", known, values)
	}
}

// What was read before a write is not kept after it.
func TestMemoryRefusesOldReads(t *testing.T) {
	key, old, now := []byte("k"), []byte("old"), []byte("new")
	for name, write := range map[string]func(*memory){
		"write":  func(m *memory) { m.forget(key); m.replace(key, now) },
		"delete": func(m *memory) { m.forget(key); m.replace(key, nil) },
		"range":  func(m *memory) { m.forgetRange(key, []byte("l")) },
	} {
		m := newMemory(1<<20, func(int) {})
		_, writes := m.get(key)
		write(m)
		m.keep(key, old, writes)
		if v, _ := m.get(key); bytes.Equal(v, old) {
			t.Errorf("%s: the old value is kept", name)
		}
	}
}

// What was deleted does not come back when others push out what is left of it.
func TestMemoryBringsNothingBack(t *testing.T) {
	m := newMemory(memoryShards*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	keep := func(key []byte) {
		_, writes := m.get(key)
		m.keep(key, value, writes)
		m.get(key)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	const deleted = 1000
	for i := range deleted {
		keep(key(i))
	}
	for i := range deleted {
		m.forget(key(i))
		m.replace(key(i), nil)
	}
	for i := range 20 * deleted {
		m.forget(key(deleted + i))
		m.replace(key(deleted+i), value)
		if v, _ := m.get(key(i % deleted)); v != nil {
			t.Fatalf("%s is back after %d others", key(i%deleted), i)
		}
	}
}

// Of a range nothing is left, also of what is written while it is deleted, and all
// else is.
func TestMemoryForgetsARange(t *testing.T) {
	const keys, from, to = 3000, 1000, 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %04d", i) }
	value := bytes.Repeat([]byte{1}, 1000)
	m := newMemory(memoryShards*100<<10, func(int) {})
	for i := range keys {
		_, writes := m.get(key(i))
		m.keep(key(i), value, writes)
	}
	known := func(i int) bool { v, _ := m.get(key(i)); return v != nil }
	if !known(0) || !known(from) || !known(keys-1) {
		t.Fatal("not all are known")
	}
	m.forget(key(from)) // it is written, then deleted, and only then told
	m.forgetRange(key(from), key(to))
	m.replace(key(from), value)
	for i := range keys {
		if within := i >= from && i < to; known(i) == within {
			t.Errorf("%s is known: %v", key(i), !within)
		}
	}
	m.forget(key(from))
	m.replace(key(from), value)
	if !known(from) {
		t.Error("what is written after it is not known")
	}
	m.forgetRange([]byte{0}, []byte{0xff})
	for i := range m.shards {
		if s := &m.shards[i]; s.bytes != 0 || s.live != 0 || len(s.values) != 0 {
			t.Errorf("shard %d has %d bytes left, %d of them in use, and %d values", i, s.bytes, s.live, len(s.values))
		}
	}
}

// What is read while a write is under way is not kept: others may have seen the
// write already.
func TestMemoryKeepsNothingDuringAWrite(t *testing.T) {
	key, old, now := []byte("k"), []byte("old"), []byte("new")
	for name, value := range map[string][]byte{"a write": now, "a deletion": nil} {
		m := newMemory(1<<20, func(int) {})
		_, before := m.get(key)
		m.forget(key)
		_, during := m.get(key)
		m.keep(key, old, before)
		m.keep(key, old, during)
		if v, _ := m.get(key); v != nil {
			t.Errorf("%s: %q is kept during it", name, v)
		}
		m.replace(key, value)
		m.keep(key, old, before)
		m.keep(key, old, during)
		if v, _ := m.get(key); !bytes.Equal(v, value) {
			t.Errorf("%s: %q is kept after it", name, v)
		}
		_, after := m.get(key)
		m.keep(key, now, after)
		if v, _ := m.get(key); !bytes.Equal(v, now) {
			t.Errorf("%s: what is read afterwards is not kept", name)
		}
	}
}

// Counters that many add to never go back, whoever
// reads them and by which way.
func TestMemoryIsNeverBehind(t *testing.T) {
	for _, o := range []Options{InMemory(), {Dir: t.TempDir()}} {
		o.CacheBytes = 128 << 10 // so that much is forgotten
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		neverBehind(t, e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func neverBehind(t *testing.T, e *Engine) {
	const keys, writers, readers, rounds = 16, 4, 4, 1500
	ctx := context.Background()
	key := func(n int) []byte { return fmt.Appendf(nil, "counter %02d", n) }
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				k := key(random.IntN(keys))
				err := e.Update(ctx, [][]byte{k}, func(tx store.Tx) error {
					v, _ := tx.Get(k)
					tx.Set(k, binary.BigEndian.AppendUint64(make([]byte, 0, 200), counter(v)+1))
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for r := range readers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(r)))
			var seen [keys]uint64
			for range rounds {
				n := random.IntN(keys)
				var got uint64
				if random.IntN(4) == 0 { // past the memory
					err := e.ReadRange(ctx, store.Range{Start: key(n), End: key(n + 1)}, func(p store.Pair) bool {
						got = counter(p.Value)
						return true
					})
					if err != nil {
						t.Error(err)
						return
					}
				} else {
					v, err := e.Get(ctx, store.Strong, key(n))
					if err != nil {
						t.Error(err)
						return
					}
					got = counter(v[0])
				}
				if got < seen[n] {
					t.Errorf("counter %d was %d and is %d", n, seen[n], got)
					return
				}
				seen[n] = got
			}
		})
	}
	all.Wait()
	var total uint64
	for n := range keys {
		v, err := e.Get(ctx, store.Strong, key(n))
		if err != nil {
			t.Fatal(err)
		}
		total += counter(v[0])
	}
	if total != writers*rounds {
		t.Errorf("the counters add up to %d, want %d", total, writers*rounds)
	}
	if err := e.DeleteRange(ctx, key(0), key(keys)); err != nil {
		t.Fatal(err)
	}
	for n := range keys {
		if v, err := e.Get(ctx, store.Strong, key(n)); err != nil || v[0] != nil {
			t.Errorf("counter %d after DeleteRange: %x, %v", n, v[0], err)
		}
	}
}

func counter(v []byte) uint64 {
	if v == nil {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// What is new is kept as long as there is room, in the last chunk too.
func TestMemoryFillsUp(t *testing.T) {
	const most = memoryShards * 100 << 10
	value := bytes.Repeat([]byte{1}, 1000)
	for name, add := range map[string]func(m *memory, key []byte){
		"what is read": func(m *memory, key []byte) {
			_, writes := m.get(key)
			m.keep(key, value, writes)
		},
		"what is written": func(m *memory, key []byte) {
			if m.forget(key) {
				m.replace(key, value)
			} else {
				m.replace(key, nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(most, func(int) {})
			for i := range 2 * most / len(value) {
				add(m, fmt.Appendf(nil, "key %d", i))
			}
			live := int64(0)
			for i := range m.shards {
				live += m.shards[i].live
			}
			if live < most*80/100 {
				t.Errorf("%d of %d bytes are used", live, most)
			}
		})
	}
}

// A large Update ends in memory like any other. (Pebble takes the bytes of its batch
// away.)
func TestMemoryAfterALargeUpdate(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1, memtableBytes: 256 << 10})
	defer e.Close()
	const keys, size = 200, 1000 // more than half a memtable
	key := func(i int) []byte { return fmt.Appendf(nil, "large %d", i) }
	before := e.tidy.written.Load()
	if err := e.Update(ctx, nil, func(tx store.Tx) error {
		for i := range keys {
			tx.Set(key(i), bytes.Repeat([]byte{1}, size))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := e.tidy.written.Load() - before; n < keys*size {
		t.Errorf("%d bytes count as written, of %d", n, keys*size)
	}
	for i := range keys {
		if _, err := e.Get(ctx, store.Strong, key(i)); err != nil {
			t.Fatal(err)
		}
		if v, _ := e.memory.get(key(i)); v == nil {
			t.Fatalf("%s is read, and not kept", key(i))
		}
	}
}
