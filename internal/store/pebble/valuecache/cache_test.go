package valuecache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// write writes one key in one step. A nil value deletes.
func write(c *Cache, key, value []byte) {
	var w Write
	begin(c, &w, key, value)
	w.Commit()
	w.End()
}

// begin begins the write of a key that existed.
func begin(c *Cache, w *Write, key, value []byte) {
	w.Begin(c)
	if value == nil {
		w.Invalidate(key)
	} else {
		w.Replace(key, value, true)
	}
}

func cached(c *Cache, key []byte) bool { v, _ := c.Get(key); return v != nil }

// The least recently hit values are evicted, and the size stays within the capacity.
func TestCacheIsBounded(t *testing.T) {
	const capacity = 64 * 100 << 10
	grown := int64(0)
	c := New(capacity, func(bytes int) { grown += int64(bytes) })
	value := bytes.Repeat([]byte{1}, 1000)
	hot := []byte("hot")
	_, version := c.Get(hot)
	c.Add(hot, value, version)
	for i := range 100_000 {
		key := fmt.Appendf(nil, "key %d", i)
		_, version := c.Get(key)
		c.Add(key, value, version)
		if !cached(c, hot) {
			t.Fatalf("after %d other keys, a value that is always hit is evicted", i)
		}
	}
	total, count := int64(0), 0
	for i := range c.shards {
		s := &c.shards[i]
		total += s.size()
		count += len(s.index)
		var counted int64
		for _, chunk := range s.chunks {
			counted += int64(cap(chunk))
		}
		if counted != s.bytes {
			t.Errorf("shard %d counts %d bytes and has %d", i, s.bytes, counted)
		}
	}
	if total > capacity || count < capacity/1200*3/4 {
		t.Errorf("%d values in %d bytes, the capacity is %d", count, total, capacity)
	}
	if grown < total || grown > capacity+maxStepBytes {
		t.Errorf("the cache has grown by %d bytes, has %d, and the capacity is %d", grown, total, capacity)
	}
}

// A scan by key of a large table does not evict values that are hit, and a key that is
// read repeatedly is still admitted.
func TestScanDoesNotEvict(t *testing.T) {
	c := New(64*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	read := func(name string, i int) (hit bool) {
		key := fmt.Appendf(nil, "%s %d", name, i)
		v, version := c.Get(key)
		if v == nil {
			c.Add(key, value, version)
		}
		return v != nil
	}
	const others = 3000
	for i := range others {
		read("other", i)
	}
	for i := range 100_000 {
		read("scanned", i)
	}
	hits := 0
	for i := range others {
		if read("other", i) {
			hits++
		}
	}
	if hits < others*9/10 {
		t.Errorf("%d of %d values are left after a scan", hits, others)
	}
	for range 2 {
		read("new", 0)
	}
	if !read("new", 0) {
		t.Error("a key that is read repeatedly is not admitted")
	}
}

// Equally popular keys rarely evict each other, which would not raise the hit rate.
func TestEqualKeysRarelyEvict(t *testing.T) {
	const keys, capacity = 10_000, shardCount * 100 << 10
	c := New(capacity, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	var reads, misses, admitted int
	for i := range 20 * keys {
		key := fmt.Appendf(nil, "key %d", random.IntN(keys))
		v, version := c.Get(key)
		if v == nil {
			c.Add(key, value, version)
		}
		if i < 2*keys {
			continue
		}
		reads++
		if v == nil {
			misses++
			if cached(c, key) {
				admitted++
			}
		}
	}
	if admitted > misses/3 || misses > reads*6/10 {
		t.Errorf("%d reads, %d misses, %d admitted", reads, misses, admitted)
	}
}

// Values that are replaced repeatedly, and fit, are all cached.
func TestReplacedValuesAreNotEvicted(t *testing.T) {
	const capacity, values = 64 * 100 << 10, 3000
	c := New(capacity, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	random := rand.New(rand.NewPCG(1, 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	for range 100_000 {
		write(c, key(random.IntN(values)), value)
	}
	hits := 0
	for i := range values {
		if cached(c, key(i)) {
			hits++
		}
	}
	if hits < values*98/100 {
		t.Errorf("%d of %d values are cached", hits, values)
	}
}

// A value that was read before a write is not added after it.
func TestOldReadsAreNotAdded(t *testing.T) {
	key, old, now := []byte("k"), []byte("old"), []byte("new")
	for name, write := range map[string]func(*Cache){
		"write":  func(c *Cache) { write(c, key, now) },
		"delete": func(c *Cache) { write(c, key, nil) },
		"range":  func(c *Cache) { c.RemoveRange(key, []byte("l")) },
	} {
		c := New(1<<20, func(int) {})
		_, version := c.Get(key)
		write(c)
		c.Add(key, old, version)
		if v, _ := c.Get(key); bytes.Equal(v, old) {
			t.Errorf("%s: the old value is cached", name)
		}
	}
}

// Eviction does not bring deleted keys back.
func TestDeletedKeysStayDeleted(t *testing.T) {
	c := New(shardCount*100<<10, func(int) {})
	value := bytes.Repeat([]byte{1}, 1000)
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	const deleted = 1000
	for i := range deleted {
		_, version := c.Get(key(i))
		c.Add(key(i), value, version)
		c.Get(key(i))
	}
	for i := range deleted {
		write(c, key(i), nil)
	}
	for i := range 20 * deleted {
		write(c, key(deleted+i), value)
		if cached(c, key(i%deleted)) {
			t.Fatalf("%s is back after %d other keys", key(i%deleted), i)
		}
	}
}

// RemoveRange removes all keys of the range, those of pending writes too, and no other.
func TestRemoveRange(t *testing.T) {
	const keys, from, to = 3000, 1000, 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %04d", i) }
	value := bytes.Repeat([]byte{1}, 1000)
	c := New(shardCount*100<<10, func(int) {})
	for i := range keys {
		_, version := c.Get(key(i))
		c.Add(key(i), value, version)
	}
	if !cached(c, key(0)) || !cached(c, key(from)) || !cached(c, key(keys-1)) {
		t.Fatal("not all keys are cached")
	}
	var w Write
	begin(c, &w, key(from), value) // it is visible, then deleted, and only then ends
	c.RemoveRange(key(from), key(to))
	w.Commit()
	w.End()
	for i := range keys {
		if within := i >= from && i < to; cached(c, key(i)) == within {
			t.Errorf("%s is cached: %v", key(i), !within)
		}
	}
	write(c, key(from), value)
	if !cached(c, key(from)) {
		t.Error("a key that is written later is not cached")
	}
	c.RemoveRange([]byte{0}, []byte{0xff})
	for i := range c.shards {
		if s := &c.shards[i]; s.bytes != 0 || s.live != 0 || len(s.index) != 0 {
			t.Errorf("shard %d has %d bytes left, %d of them in use, and %d values", i, s.bytes, s.live, len(s.index))
		}
	}
}

// A value that is read while a write is pending is not added: other readers may have seen
// the new value already.
func TestReadsDuringAWriteAreNotAdded(t *testing.T) {
	key, old, now := []byte("k"), []byte("old"), []byte("new")
	for name, value := range map[string][]byte{"a write": now, "a delete": nil} {
		c := New(1<<20, func(int) {})
		_, before := c.Get(key)
		var w Write
		begin(c, &w, key, value)
		_, during := c.Get(key)
		c.Add(key, old, before)
		c.Add(key, old, during)
		if v, _ := c.Get(key); v != nil {
			t.Errorf("%s: %q is cached during it", name, v)
		}
		w.Commit()
		w.End()
		c.Add(key, old, before)
		c.Add(key, old, during)
		if v, _ := c.Get(key); !bytes.Equal(v, value) {
			t.Errorf("%s: %q is cached after it", name, v)
		}
		_, after := c.Get(key)
		c.Add(key, now, after)
		if v, _ := c.Get(key); !bytes.Equal(v, now) {
			t.Errorf("%s: a value that is read afterwards is not cached", name)
		}
	}
}

// A write that is not committed, because it failed or its caller panicked, leaves its keys
// uncached, also if the Write was committed the last time.
func TestWriteWithoutCommit(t *testing.T) {
	c := New(1<<20, func(int) {})
	write(c, []byte("k"), []byte("old"))
	var w Write
	begin(c, &w, []byte("k"), []byte("before"))
	w.Commit()
	w.End()
	begin(c, &w, []byte("k"), []byte("new"))
	w.End()
	if v, _ := c.Get([]byte("k")); v != nil {
		t.Errorf("%q is cached", v)
	}
	begin(c, &w, []byte("k"), []byte("newer")) // it can be used again
	w.Commit()
	w.End()
	if v, _ := c.Get([]byte("k")); string(v) != "newer" {
		t.Errorf("%q is cached after the next write", v)
	}
}

// New keys are cached as long as there is free space, in the last chunk too.
func TestCacheFillsUp(t *testing.T) {
	const capacity = shardCount * 100 << 10
	value := bytes.Repeat([]byte{1}, 1000)
	for name, add := range map[string]func(c *Cache, key []byte){
		"reads": func(c *Cache, key []byte) {
			_, version := c.Get(key)
			c.Add(key, value, version)
		},
		"writes": func(c *Cache, key []byte) {
			var w Write
			w.Begin(c)
			w.Replace(key, value, false)
			w.Commit()
			w.End()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(capacity, func(int) {})
			for i := range 2 * capacity / len(value) {
				add(c, fmt.Appendf(nil, "key %d", i))
			}
			live := int64(0)
			for i := range c.shards {
				live += c.shards[i].live
			}
			if live < capacity*80/100 {
				t.Errorf("%d of %d bytes are used", live, capacity)
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	c := New(64<<20, func(int) {})
	key := []byte("a key of about thirty bytes ...")
	write(c, key, make([]byte, 256))
	b.ReportAllocs()
	for b.Loop() {
		c.Get(key)
	}
}

func BenchmarkWrite(b *testing.B) {
	c := New(64<<20, func(int) {})
	key, value := []byte("a key of about thirty bytes ..."), make([]byte, 256)
	var w Write
	b.ReportAllocs()
	for b.Loop() {
		begin(c, &w, key, value)
		w.Commit()
		w.End()
	}
}
