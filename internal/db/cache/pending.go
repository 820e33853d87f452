package cache

import (
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
)

// pendingOps is what is in progress for one item, or for one scope of queries. It exists as
// long as anything is.
type pendingOps struct {
	users   int // reads and writes
	writers int
	version uint64 // writes that have ended
}

// registration is a read or a write that is in progress.
type registration struct {
	ops     *pendingOps
	version uint64 // when it began
}

// register adds a user. The caller holds mu.
func (c *Cache) register(key string) registration {
	f := c.pending[key]
	if f == nil {
		f = new(pendingOps)
		c.pending[key] = f
	}
	f.users++
	return registration{f, f.version}
}

// unregister removes a user. The caller holds mu.
func (c *Cache) unregister(key string, r registration) {
	if r.ops.users--; r.ops.users == 0 {
		delete(c.pending, key)
	}
}

// Read is a read of the database after a miss. Exactly one of its methods is called.
type Read struct {
	c          *Cache
	key, scope string
	since      time.Duration
	valid      bool   // when it began
	generation uint64 // when it began
	registered registration
}

// Item ends the read of an item, which is nil if it does not exist. The item is cached
// unless a write has ended since the read began, or is in progress: what was read may be
// older than that. An entry that another read has added meanwhile stays.
func (r *Read) Item(it item.Item) { r.end(&cachedEntry{key: r.key, item: clone(it), since: r.since}) }

// Page ends the execution of a query, as Item does. The page, and the memory of its items,
// belong to the cache.
func (r *Read) Page(p *Page) {
	r.end(&cachedEntry{key: r.key, page: p, scope: r.scope, since: r.since})
}

// Cancel ends a read that failed.
func (r *Read) Cancel() { r.end(nil) }

func (r *Read) end(e *cachedEntry) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unregister(r.scope, r.registered)
	f := r.registered.ops
	if e != nil && r.valid && r.generation == c.generation && f.writers == 0 && f.version == r.registered.version && c.entries[e.key] == nil {
		c.put(e)
	}
}

// Write is a write through a cache of mode DAX, of one or more items. It begins before the
// database is changed, and End is called once.
type Write struct {
	c    *Cache
	keys []writeInFlight
}

type writeInFlight struct {
	key        string
	registered registration
	state      writeState
	item       item.Item
}

type writeState byte

const (
	unchanged writeState = iota // the entry stays
	stored                      // the item is cached
	forgotten                   // the entry is removed
)

// BeginWrite begins a write of the items of these keys.
func (c *Cache) BeginWrite(keys ...[]byte) *Write {
	w := &Write{c: c, keys: make([]writeInFlight, len(keys))}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range keys {
		key := string(keys[i])
		w.keys[i] = writeInFlight{key: key, registered: c.register(key)}
		w.keys[i].registered.ops.writers++
	}
	return w
}

// Put says what the database has now for the key of an index: an item, or none. Without
// it, the write of that key had no effect.
func (w *Write) Put(i int, it item.Item) { w.keys[i].state, w.keys[i].item = stored, clone(it) }

// Forget says that what the database has now is not known, for the keys from an index on.
func (w *Write) Forget(from int) {
	for i := range w.keys[from:] {
		w.keys[from+i].state = forgotten
	}
}

// End ends a write. The order in which concurrent writes of one item were committed is not known
// here, so none of them is cached.
func (w *Write) End() {
	c := w.c
	now := c.o.Elapsed()
	if c.written != nil {
		if keys := w.changed(); len(keys) > 0 {
			defer c.written(keys) // after c.mu is unlocked
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range w.keys {
		k := &w.keys[i]
		f := k.registered.ops
		alone := f.writers == 1 && f.version == k.registered.version
		f.writers--
		c.unregister(k.key, k.registered)
		if k.state == unchanged {
			continue
		}
		f.version++
		if k.state == stored && alone {
			c.put(&cachedEntry{key: k.key, item: k.item, since: now})
			c.stats.Writes++
		} else if e := c.entries[k.key]; e != nil {
			c.remove(e)
		}
	}
}

// changed returns the keys that were written, or may have been.
func (w *Write) changed() (keys [][]byte) {
	for i := range w.keys {
		if w.keys[i].state != unchanged {
			keys = append(keys, []byte(w.keys[i].key))
		}
	}
	return keys
}

// Invalidate tells the cache that other servers have written the items of these keys. It
// drops them, and if the cache is Coherent the results of queries that may have changed.
// What a read has found that is in progress is not cached.
func (c *Cache) Invalidate(keys [][]byte) {
	if c.o.Mode == Coherent {
		c.Writing(keys)()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if f := c.pending[string(key)]; f != nil {
			f.version++
		}
		if e := c.entries[string(key)]; e != nil {
			c.remove(e)
			c.stats.Dropped++
		}
	}
}

// InvalidateAll drops all entries. What reads have found that are in progress is not cached.
func (c *Cache) InvalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Dropped += int64(len(c.entries))
	c.generation++
	c.bytes = 0
	clear(c.entries)
	clear(c.scopes)
	c.newest.prev, c.newest.next = &c.newest, &c.newest
}

// TableScope is the scope of queries that any write to a table may change: scans, and
// queries of an index.
func TableScope(table uint32) string {
	start, _ := keyspace.TableSpan(table)
	return "t" + string(start)
}

// QueryScope is the scope of queries of one partition of a table, whose keys begin with a
// prefix.
func QueryScope(prefix []byte) string {
	return "p" + string(prefix[:min(len(prefix), keyspace.PartitionBytes)])
}

// Writing tells a Coherent cache that the items of these keys are about to be written. It
// drops them, and the results of queries that may change. Nothing of them is cached until
// the function that it returns is called, once the writes are visible or have failed.
func (c *Cache) Writing(keys [][]byte) (written func()) {
	scopes := make([]string, 0, 3*len(keys))
	for _, key := range keys {
		table, _ := keyspace.TablePrefix(key)
		scopes = append(scopes, string(key), QueryScope(key), TableScope(table))
	}
	users := make([]registration, len(scopes))
	c.mu.Lock()
	for i, scope := range scopes {
		users[i] = c.register(scope)
		users[i].ops.writers++
		if e := c.entries[scope]; e != nil {
			c.remove(e)
			c.stats.Dropped++
		}
		for e := range c.scopes[scope] {
			c.remove(e)
			c.stats.Dropped++
		}
	}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, scope := range scopes {
			users[i].ops.writers--
			users[i].ops.version++
			c.unregister(scope, users[i])
		}
	}
}
