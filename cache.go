package stator

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
)

// Cache configures a cache with the rules of DAX: eventually consistent reads of items and
// queries are answered from memory.
type Cache struct {
	Mode CacheMode

	// ItemTTL is how long an item is cached; with 0 until it is written through the cache or
	// evicted. QueryTTL is how long the result of a query or a scan is cached; with 0 none is.
	ItemTTL, QueryTTL time.Duration

	// Bytes bounds the memory of the cache. It defaults to 64 MiB.
	Bytes int64

	// HTTP makes requests to Handler go through the cache. Their replies have the header
	// X-Stator-Cache: hit, miss or pass. DAX makes those of DB.DAX go through it.
	HTTP, DAX bool

	// Cluster is the ClusterId of the metrics in CloudWatch; it defaults to DefaultCluster.
	Cluster string
}

// CacheMode is what a cache promises.
type CacheMode = cache.Mode

// The modes of a cache.
const (
	// CacheDAX is as stale as DAX is: what is written around the cache is not seen until the
	// time to live, and the results of queries do not change until then.
	CacheDAX = cache.DAX
	// CacheCoherent returns nothing that was replaced: a write drops what it changes before
	// it is answered, on a cluster in the caches of all servers. There, each write takes some
	// milliseconds longer; see docs/cache.md.
	CacheCoherent = cache.Coherent
)

// NewCache returns the configuration of a cache for all requests, with the times of DAX:
// five minutes each.
func NewCache(mode CacheMode) *Cache {
	return &Cache{Mode: mode, ItemTTL: cache.DefaultTTL, QueryTTL: cache.DefaultTTL, HTTP: true, DAX: true}
}

// checkCache returns the error of a cache that cannot be.
func (o *Options) checkCache() error {
	c := o.Cache
	switch {
	case c == nil:
		return nil
	case c.Mode != CacheDAX && c.Mode != CacheCoherent:
		return fmt.Errorf("%q is not a mode of a cache: use dax or coherent", c.Mode)
	case c.ItemTTL < 0 || c.QueryTTL < 0 || c.Bytes < 0:
		return errors.New("the times to live and the size of a cache must not be negative")
	}
	return nil
}

// shareCache makes a cache known to the database, which tells it of the writes of other servers
// on a cluster.
func shareCache(c *cache.Cache, settings *db.Options) {
	if c == nil {
		return
	}
	if c.Mode() == cache.Coherent {
		settings.Writing = c.Writing
	}
	settings.SharedCache = &db.SharedCache{Coherent: c.Mode() == cache.Coherent, Cluster: c.Cluster(), Invalidate: c.Invalidate, InvalidateAll: c.InvalidateAll}
}

// followWrites connects a cache with its database, on a cluster.
func followWrites(c *cache.Cache, d *db.DB) {
	switch c.Mode() {
	case cache.Coherent:
		c.ServeIf(d.CacheIsValid)
	case cache.DAX:
		c.OnWritten(d.AnnounceWritten)
	}
}

// newCache returns the cache; nil without one.
func (o *Options) newCache(now *clock.Clock) *cache.Cache {
	c := o.Cache
	if c == nil {
		return nil
	}
	return cache.New(cache.Options{Mode: c.Mode, ItemTTL: c.ItemTTL, QueryTTL: c.QueryTTL, Bytes: cmp.Or(c.Bytes, cache.DefaultBytes), Elapsed: now.Elapsed, Cluster: cmp.Or(c.Cluster, DefaultCluster)})
}
