// Package cache holds items and results of queries in memory, as DAX does.
//
// It knows keys, items and times, and nothing of requests: package ops decides which of
// them may be answered from it, and package db tells a coherent cache of every write.
package cache

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

// Mode is what a cache promises.
type Mode string

// The modes of a cache.
const (
	// Off is no cache.
	Off Mode = "off"
	// DAX returns what may be older than its table, until the time to live. Writes through
	// the cache replace items, and leave the results of queries as they are.
	DAX Mode = "dax"
	// Coherent returns nothing that a write has replaced which was visible before.
	Coherent Mode = "coherent"
)

// ParseMode returns the mode of a name.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); m == Off || m == DAX || m == Coherent {
		return m, nil
	}
	return "", fmt.Errorf("%q is not a mode of the cache: use dax, coherent or off", name)
}

// The defaults of Options.
const (
	DefaultTTL   = 5 * time.Minute
	DefaultBytes = 64 << 20
)

// Options configures a Cache.
type Options struct {
	Mode     Mode          // DAX or Coherent
	ItemTTL  time.Duration // 0: items do not expire
	QueryTTL time.Duration // 0: results of queries are not cached
	Bytes    int64         // bounds the memory of all entries

	// Elapsed is the monotonic clock of the database: only differences have a meaning.
	Elapsed func() time.Duration

	Cluster string // the name of the cluster under which CloudWatch has the metrics
}

// Cache holds items and results of queries. Its methods are safe for concurrent use.
//
// What is read from the database must not replace what was written since. So every read
// that may add an entry, and every write, is known while it is in progress: see pendingOps.
type Cache struct {
	o Options

	itemTTL, queryTTL atomic.Int64 // time.Duration; see SetTTLs

	mu      sync.Mutex
	entries map[string]*cachedEntry // items and results have different keys
	newest  cachedEntry             // the list of all entries, by their last use; it is a ring
	bytes   int64                   // of all entries
	pending map[string]*pendingOps
	scopes  map[string]map[*cachedEntry]struct{} // the results of queries by their scope, if Coherent
	stats   Stats

	generation uint64 // how often all entries were dropped

	valid   func() bool         // may be nil; see ServeIf
	written func(keys [][]byte) // may be nil; see OnWritten

	measured measured

	requests, errors, failures atomic.Int64 // see Count
}

// ServeIf sets a function that reports whether the cache is told of the writes of other
// servers. While it is not, nothing is returned from it and nothing is added. It is called
// before the cache is used.
func (c *Cache) ServeIf(valid func() bool) { c.valid = valid }

// OnWritten sets a function that is called with the keys of writes through a cache of mode
// DAX, when they have ended. It is called before the cache is used.
func (c *Cache) OnWritten(written func(keys [][]byte)) { c.written = written }

// isValid reports whether entries may be returned and added.
func (c *Cache) isValid() bool { return c.valid == nil || c.valid() }

// cachedEntry is an item, or a result of a query.
type cachedEntry struct {
	key        string
	item       item.Item // nil if it does not exist
	page       *Page     // nil for an item
	scope      string    // of a page
	since      time.Duration
	bytes      int64
	prev, next *cachedEntry // used before and after this one
}

// entryBytes is about what an entry takes beyond the bytes of its key and its items: the
// entry itself, its place in the map, and what the allocator adds.
const entryBytes = 208

// Page is the result of a query or a scan. It must not be changed.
type Page struct {
	Items          []item.Item // nil if only their number was asked for
	Count, Scanned int
	Last           item.Item // the key after which the next page begins; nil at the end
}

func (p *Page) bytes() int64 {
	const pageBytes, header = 96, 24
	n := pageBytes + len(p.Last) + header*len(p.Items)
	for _, it := range p.Items {
		n += len(it)
	}
	return int64(n)
}

// New returns an empty cache.
func New(o Options) *Cache {
	c := &Cache{o: o, entries: make(map[string]*cachedEntry), pending: make(map[string]*pendingOps), scopes: make(map[string]map[*cachedEntry]struct{})}
	c.newest.prev, c.newest.next = &c.newest, &c.newest
	c.SetTTLs(o.ItemTTL, o.QueryTTL)
	return c
}

// SetTTLs changes the times to live, also of what is cached already.
func (c *Cache) SetTTLs(item, query time.Duration) {
	c.itemTTL.Store(int64(item))
	c.queryTTL.Store(int64(query))
}

// TTLs returns the times to live.
func (c *Cache) TTLs() (item, query time.Duration) {
	return time.Duration(c.itemTTL.Load()), time.Duration(c.queryTTL.Load())
}

// Mode returns the mode of the cache. It is Off if c is nil.
func (c *Cache) Mode() Mode {
	if c == nil {
		return Off
	}
	return c.o.Mode
}

// Cluster returns the name of the cluster under which CloudWatch has the metrics.
func (c *Cache) Cluster() string { return c.o.Cluster }

// Item returns the item of a key, nil if it does not exist. If the cache does not know
// that, it is not a hit: the caller reads the item from the database and passes it to
// the read that is returned here, or cancels it.
func (c *Cache) Item(key []byte) (it item.Item, hit bool, r *Read) {
	now, valid := c.o.Elapsed(), c.isValid()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(key, now, time.Duration(c.itemTTL.Load())); e != nil && valid {
		c.stats.ItemHits++
		c.served(c.measured.itemHits, now-e.since)
		return e.item, true, nil
	}
	c.stats.ItemMisses++
	add(c.measured.itemMisses, 1)
	name := string(key)
	return nil, false, &Read{c: c, key: name, scope: name, since: now, valid: valid, generation: c.generation, registered: c.register(name)}
}

// CachesQueries reports whether results of queries are cached at all.
func (c *Cache) CachesQueries() bool { return c.queryTTL.Load() > 0 }

// Query returns the result of a query. If it is not cached, the caller executes the query
// and passes its result to the read that is returned here, or cancels it. scope is what
// the query reads: QueryScope or TableScope of the writes that may change its result.
func (c *Cache) Query(key []byte, scope string) (p *Page, r *Read) {
	now, valid := c.o.Elapsed(), c.isValid()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(key, now, time.Duration(c.queryTTL.Load())); e != nil && valid {
		c.stats.QueryHits++
		c.served(c.measured.queryHits, now-e.since)
		return e.page, nil
	}
	c.stats.QueryMisses++
	add(c.measured.queryMisses, 1)
	return nil, &Read{c: c, key: string(key), scope: scope, since: now, valid: valid, generation: c.generation, registered: c.register(scope)}
}

// find returns an entry that has not expired, and marks it as used. The caller holds mu.
func (c *Cache) find(key []byte, now, ttl time.Duration) *cachedEntry {
	e := c.entries[string(key)] // without an allocation
	if e == nil {
		return nil
	}
	if ttl > 0 && now-e.since >= ttl {
		c.remove(e)
		c.stats.Expired++
		return nil
	}
	e.unlink()
	c.link(e)
	return e
}

// put adds or replaces an entry, and evicts others if there is no room for it. One that is larger
// than the cache is not added. The caller holds mu.
func (c *Cache) put(e *cachedEntry) {
	if old := c.entries[e.key]; old != nil {
		c.remove(old)
	}
	e.bytes = entryBytes + int64(len(e.key)+len(e.scope)+len(e.item))
	if e.page != nil {
		e.bytes += e.page.bytes()
	}
	if e.bytes > c.o.Bytes {
		return
	}
	for c.bytes+e.bytes > c.o.Bytes {
		oldest := c.newest.next
		c.stats.Evicted++
		c.stats.EvictedBytes += oldest.bytes
		add(c.measured.evicted, float64(oldest.bytes))
		c.remove(oldest)
	}
	c.entries[e.key] = e
	c.bytes += e.bytes
	c.link(e)
	if e.page != nil && c.o.Mode == Coherent {
		if c.scopes[e.scope] == nil {
			c.scopes[e.scope] = make(map[*cachedEntry]struct{})
		}
		c.scopes[e.scope][e] = struct{}{}
	}
}

// remove removes an entry. The caller holds mu.
func (c *Cache) remove(e *cachedEntry) {
	e.unlink()
	delete(c.entries, e.key)
	c.bytes -= e.bytes
	if same := c.scopes[e.scope]; same != nil {
		if delete(same, e); len(same) == 0 {
			delete(c.scopes, e.scope)
		}
	}
}

// link makes an entry the one that was used last.
func (c *Cache) link(e *cachedEntry) {
	e.prev, e.next = c.newest.prev, &c.newest
	e.prev.next, e.next.prev = e, e
}

func (e *cachedEntry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// clone copies an item, which may be part of a larger block of memory.
func clone(it item.Item) item.Item { return item.Item(bytes.Clone(it)) }
