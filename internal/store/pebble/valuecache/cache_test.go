package valuecache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The least asked for go first, and the bytes stay within the bound.
func TestMemoryIsBounded(t *testing.T) {
	const most = 64 * 100 << 10
	grown := int64(0)
	m := New(most, func(bytes int) { grown += int64(bytes) })
	value := bytes.Repeat([]byte{1}, 1000)
	hot := []byte("hot")
	_, writes := m.Get(hot)
	m.Keep(hot, value, writes)
	for i := range 100_000 {
		key := fmt.Appendf(nil, "key %d", i)
		_, writes := m.Get(key)
		m.Keep(key, value, writes)
		if v, _ := m.Get(hot); v == nil {
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
	m := New(64*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	ask := func(name string, i int) (known bool) {
		key := fmt.Appendf(nil, "%s %d", name, i)
		v, writes := m.Get(key)
		if v == nil {
			m.Keep(key, value, writes)
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
	m := New(most, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	var asked, missed, kept int
	for i := range 20 * keys {
		key := fmt.Appendf(nil, "key %d", random.IntN(keys))
		v, writes := m.Get(key)
		if v == nil {
			m.Keep(key, value, writes)
		}
		if i < 2*keys {
			continue
		}
		asked++
		if v == nil {
			missed++
			if v, _ := m.Get(key); v != nil {
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
	m := New(most, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	for range 100_000 {
		k := key(random.IntN(values))
		m.Forget(k)
		m.Replace(k, value)
	}
	known := 0
	for i := range values {
		if v, _ := m.Get(key(i)); v != nil {
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
	for name, write := range map[string]func(*Cache){
		"write":  func(m *Cache) { m.Forget(key); m.Replace(key, now) },
		"delete": func(m *Cache) { m.Forget(key); m.Replace(key, nil) },
		"range":  func(m *Cache) { m.ForgetRange(key, []byte("l")) },
	} {
		m := New(1<<20, func(int) {})
		_, writes := m.Get(key)
		write(m)
		m.Keep(key, old, writes)
		if v, _ := m.Get(key); bytes.Equal(v, old) {
			t.Errorf("%s: the old value is kept", name)
		}
	}
}

// What was deleted does not come back when others push out what is left of it.
func TestMemoryBringsNothingBack(t *testing.T) {
	m := New(memoryShards*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	keep := func(key []byte) {
		_, writes := m.Get(key)
		m.Keep(key, value, writes)
		m.Get(key)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	const deleted = 1000
	for i := range deleted {
		keep(key(i))
	}
	for i := range deleted {
		m.Forget(key(i))
		m.Replace(key(i), nil)
	}
	for i := range 20 * deleted {
		m.Forget(key(deleted + i))
		m.Replace(key(deleted+i), value)
		if v, _ := m.Get(key(i % deleted)); v != nil {
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
	m := New(memoryShards*100<<10, func(int) {})
	for i := range keys {
		_, writes := m.Get(key(i))
		m.Keep(key(i), value, writes)
	}
	known := func(i int) bool { v, _ := m.Get(key(i)); return v != nil }
	if !known(0) || !known(from) || !known(keys-1) {
		t.Fatal("not all are known")
	}
	m.Forget(key(from)) // it is written, then deleted, and only then told
	m.ForgetRange(key(from), key(to))
	m.Replace(key(from), value)
	for i := range keys {
		if within := i >= from && i < to; known(i) == within {
			t.Errorf("%s is known: %v", key(i), !within)
		}
	}
	m.Forget(key(from))
	m.Replace(key(from), value)
	if !known(from) {
		t.Error("what is written after it is not known")
	}
	m.ForgetRange([]byte{0}, []byte{0xff})
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
		m := New(1<<20, func(int) {})
		_, before := m.Get(key)
		m.Forget(key)
		_, during := m.Get(key)
		m.Keep(key, old, before)
		m.Keep(key, old, during)
		if v, _ := m.Get(key); v != nil {
			t.Errorf("%s: %q is kept during it", name, v)
		}
		m.Replace(key, value)
		m.Keep(key, old, before)
		m.Keep(key, old, during)
		if v, _ := m.Get(key); !bytes.Equal(v, value) {
			t.Errorf("%s: %q is kept after it", name, v)
		}
		_, after := m.Get(key)
		m.Keep(key, now, after)
		if v, _ := m.Get(key); !bytes.Equal(v, now) {
			t.Errorf("%s: what is read afterwards is not kept", name)
		}
	}
}

// What is new is kept as long as there is room, in the last chunk too.
func TestMemoryFillsUp(t *testing.T) {
	const most = memoryShards * 100 << 10
	value := bytes.Repeat([]byte{1}, 1000)
	for name, add := range map[string]func(m *Cache, key []byte){
		"what is read": func(m *Cache, key []byte) {
			_, writes := m.Get(key)
			m.Keep(key, value, writes)
		},
		"what is written": func(m *Cache, key []byte) {
			if m.Forget(key) {
				m.Replace(key, value)
			} else {
				m.Replace(key, nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(most, func(int) {})
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
