package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
)

// newTestCache returns a cache, and the time that it uses.
func newTestCache(o Options) (*Cache, *time.Duration) {
	now := new(time.Duration)
	o.Elapsed = func() time.Duration { return *now }
	if o.Bytes == 0 {
		o.Bytes = 1 << 20
	}
	if o.Mode == "" {
		o.Mode = DAX
	}
	return New(o), now
}

// itemOf returns an item with some bytes.
func itemOf(text string) item.Item {
	return item.Make(map[string]item.Value{"v": item.String(text)})
}

func (c *Cache) write(key string, it item.Item) {
	w := c.BeginWrite([]byte(key))
	w.Put(0, it)
	w.End()
}

// want checks what the cache has for a key: a text, "none" for an item that does not
// exist, "" for nothing.
func (c *Cache) want(t *testing.T, key, want string) {
	t.Helper()
	it, hit, read := c.Item([]byte(key))
	got := ""
	switch {
	case !hit:
		read.Cancel()
	case it == nil:
		got = "none"
	default:
		v, _ := it.Get("v")
		got = string(v.Bytes())
	}
	if got != want {
		t.Errorf("the cache has %q for %s, want %q", got, key, want)
	}
}

// What a read has found does not replace what was written since the read began.
func TestReadDoesNotReplaceWrite(t *testing.T) {
	began := func(c *Cache) *Read { _, _, r := c.Item([]byte("k")); return r }
	for _, test := range []struct {
		name string
		run  func(c *Cache)
		want string
	}{
		{"the write ends first", func(c *Cache) {
			r := began(c)
			c.write("k", itemOf("new"))
			r.Item(itemOf("old"))
		}, "new"},
		{"and its entry is evicted", func(c *Cache) {
			r := began(c)
			c.write("k", itemOf("new"))
			c.remove(c.entries["k"])
			r.Item(itemOf("old"))
		}, ""},
		{"the write has no effect", func(c *Cache) {
			r := began(c)
			c.BeginWrite([]byte("k")).End()
			r.Item(itemOf("old"))
		}, "old"},
		{"the write is in progress", func(c *Cache) {
			w := c.BeginWrite([]byte("k"))
			r := began(c)
			r.Item(itemOf("old"))
			c.want(t, "k", "")
			w.Put(0, itemOf("new"))
			w.End()
		}, "new"},
		{"the item is deleted", func(c *Cache) {
			r := began(c)
			c.write("k", nil)
			r.Item(itemOf("old"))
		}, "none"},
		{"another read was faster", func(c *Cache) {
			r, other := began(c), began(c)
			other.Item(itemOf("other"))
			r.Item(itemOf("old"))
		}, "other"},
		{"writes overlap: their order is not known", func(c *Cache) {
			c.write("k", itemOf("before"))
			a, b := c.BeginWrite([]byte("k")), c.BeginWrite([]byte("k"))
			b.Put(0, itemOf("b"))
			b.End()
			a.Put(0, itemOf("a"))
			a.End()
		}, ""},
		{"a later write after those", func(c *Cache) {
			a, b := c.BeginWrite([]byte("k")), c.BeginWrite([]byte("k"))
			b.End()
			a.Put(0, itemOf("a"))
			a.End()
			c.write("k", itemOf("later"))
		}, "later"},
		{"it is not known whether it was written", func(c *Cache) {
			c.write("k", itemOf("before"))
			w := c.BeginWrite([]byte("k"))
			w.Forget(0)
			w.End()
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := newTestCache(Options{})
			test.run(c)
			c.want(t, "k", test.want)
			if len(c.pending) > 0 {
				t.Errorf("%d keys count as in use", len(c.pending))
			}
		})
	}

	// The control: without the check, the first case would find the old item.
	c, _ := newTestCache(Options{})
	r := began(c)
	c.write("k", itemOf("new"))
	c.put(&cachedEntry{key: r.key, item: itemOf("old"), since: r.since})
	c.want(t, "k", "old")
}

// In mode coherent nothing is cached that was read before or while an item was written,
// and queries are dropped if the write may change them.
func TestCoherentWrites(t *testing.T) {
	key := func(partition, sort byte) []byte { // as keyspace.Item makes them
		start, _ := keyspace.IndexSpan(7, 0)
		return append(append(start, bytes.Repeat([]byte{partition}, 8)...), sort)
	}
	c, _ := newTestCache(Options{Mode: Coherent, ItemTTL: time.Minute, QueryTTL: time.Minute})
	fill := func() {
		for _, k := range [][]byte{key(1, 1), key(1, 2), key(2, 1)} {
			if _, hit, r := c.Item(k); !hit {
				r.Item(itemOf("x"))
			}
		}
		for name, scope := range map[string]string{"partition 1": QueryScope(key(1, 9)), "partition 2": QueryScope(key(2, 9)), "table": TableScope(7), "other table": TableScope(8)} {
			if _, r := c.Query([]byte("q"+name), scope); r != nil {
				r.Page(&Page{Count: 1})
			}
		}
	}
	names := []string{"partition 1", "partition 2", "table", "other table"}
	cached := func() (found []string) {
		for _, k := range [][]byte{key(1, 1), key(1, 2), key(2, 1)} {
			if c.entries[string(k)] != nil {
				found = append(found, fmt.Sprint(k[len(k)-2:]))
			}
		}
		for _, name := range names {
			if c.entries["q"+name] != nil {
				found = append(found, name)
			}
		}
		return found
	}
	want := func(want ...string) {
		t.Helper()
		if got := cached(); !slices.Equal(got, want) {
			t.Errorf("cached are %q, want %q", got, want)
		}
	}
	fill()
	want("[1 1]", "[1 2]", "[2 1]", "partition 1", "partition 2", "table", "other table")
	written := c.Writing([][]byte{key(1, 1)})
	want("[1 2]", "[2 1]", "partition 2", "other table")
	fill()
	want("[1 2]", "[2 1]", "partition 2", "other table")
	_, _, before := c.Item(key(1, 1))
	_, query := c.Query([]byte("qtable"), TableScope(7))
	written()
	before.Item(itemOf("old"))
	query.Page(&Page{})
	want("[1 2]", "[2 1]", "partition 2", "other table")
	fill()
	want("[1 1]", "[1 2]", "[2 1]", "partition 1", "partition 2", "table", "other table")
	if len(c.pending) > 0 {
		t.Errorf("%d keys count as in use", len(c.pending))
	}
}

// Random reads and writes are compared with a list in the order of the last use, which
// is cut where the sizes exceed the bound, and with the times to live.
func TestEvictionByBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const capacity, ttl = 20_000, 100 * time.Second
	c, now := newTestCache(Options{Bytes: capacity, ItemTTL: ttl, QueryTTL: ttl})
	type used struct {
		key   string
		bytes int
		since time.Duration
	}
	var model []used // the oldest first
	find := func(key string) int { return slices.IndexFunc(model, func(u used) bool { return u.key == key }) }
	evicted := 0
	store := func(key string, size int) {
		if i := find(key); i >= 0 {
			model = slices.Delete(model, i, i+1)
		}
		if size > capacity {
			return
		}
		model = append(model, used{key, size, *now})
		total := 0
		for _, u := range model {
			total += u.bytes
		}
		for ; total > capacity; evicted++ {
			total -= model[0].bytes
			model = model[1:]
		}
	}
	for range 20_000 {
		*now += time.Duration(random.IntN(2000)) * time.Millisecond
		n := random.IntN(40)
		size := random.IntN(2000)
		if random.IntN(200) == 0 {
			size = capacity
		}
		it := itemOf(string(bytes.Repeat([]byte{'x'}, size)))
		key, isQuery := fmt.Sprintf("item %d", n), random.IntN(3) == 0
		bytes := entryBytes + len(key) + len(it)
		page := &Page{Items: []item.Item{it}}
		if isQuery {
			key = fmt.Sprintf("query %d", n)
			bytes = entryBytes + len(key) + len("scope") + int(page.bytes())
		}
		i := find(key)
		if i >= 0 && *now-model[i].since >= ttl {
			model = slices.Delete(model, i, i+1)
			i = -1
		}
		if !isQuery && random.IntN(3) == 0 {
			c.write(key, it)
			store(key, bytes)
			continue
		}
		var read *Read
		if isQuery {
			_, read = c.Query([]byte(key), "scope")
		} else {
			_, _, read = c.Item([]byte(key))
		}
		if hit := read == nil; hit != (i >= 0) {
			t.Fatalf("%s: hit is %v, want %v", key, hit, i >= 0)
		}
		switch {
		case i >= 0:
			u := model[i]
			model = append(slices.Delete(model, i, i+1), u)
		case isQuery:
			read.Page(page)
			store(key, bytes)
		default:
			read.Item(it)
			store(key, bytes)
		}
		total := 0
		for _, u := range model {
			total += u.bytes
		}
		if s := c.Stats(); s.Bytes != int64(total) || s.Entries != len(model) || s.Evicted != int64(evicted) || s.Bytes > capacity {
			t.Fatalf("the cache has %d entries of %d bytes and has evicted %d, want %d, %d and %d", s.Entries, s.Bytes, s.Evicted, len(model), total, evicted)
		}
	}
	if evicted == 0 {
		t.Error("nothing was evicted")
	}
	if len(c.pending) > 0 {
		t.Errorf("%d keys count as in use", len(c.pending))
	}
}

// Ages are counted by their bounds.
func TestAges(t *testing.T) {
	c, now := newTestCache(Options{})
	c.write("k", nil)
	for _, age := range []time.Duration{0, 10 * time.Millisecond, time.Second, 2 * time.Hour} {
		*now = age
		c.want(t, "k", "none")
	}
	want := Ages{Sum: 2*time.Hour + time.Second + 10*time.Millisecond, Max: 2 * time.Hour}
	want.Counts[0], want.Counts[2], want.Counts[len(AgeBounds)] = 2, 1, 1
	if got := c.Stats().Ages; got != want {
		t.Errorf("ages are %+v, want %+v", got, want)
	}
}

func TestParseMode(t *testing.T) {
	for _, name := range []string{"off", "dax", "coherent"} {
		if m, err := ParseMode(name); err != nil || string(m) != name {
			t.Errorf("%s is %q, %v", name, m, err)
		}
	}
	if _, err := ParseMode("on"); err == nil {
		t.Error("on is a mode")
	}
	if m := (*Cache)(nil).Mode(); m != Off {
		t.Errorf("without a cache the mode is %s", m)
	}
}

func BenchmarkHit(b *testing.B) {
	c, _ := newTestCache(Options{ItemTTL: time.Minute})
	key := []byte("a key of about sixty bytes, as the keys of items usually are")
	c.write(string(key), itemOf("v"))
	b.ReportAllocs()
	for b.Loop() {
		if _, hit, _ := c.Item(key); !hit {
			b.Fatal("a miss")
		}
	}
}
