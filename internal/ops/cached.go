package ops

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
)

// The cache is used here and in cached_writes.go, and nowhere before the request was
// authorized: what a request may read does not depend on what it finds, so a hit returns
// nothing that its caller could not have read from the table.

type cacheContextKey struct{}

// cacheContext is the context of a request that goes through the cache.
type cacheContext struct {
	context.Context
	hits, misses int
}

// Value returns the context itself.
func (c *cacheContext) Value(key any) any {
	if _, ok := key.(cacheContextKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// ThroughCache returns the context of one request that reads from Parts.Cache what that
// has, and writes through it. Without a cache it has no effect.
func ThroughCache(ctx context.Context) context.Context { return &cacheContext{Context: ctx} }

// CacheUse is how a request has used the cache.
type CacheUse string

// The uses of the cache by a request.
const (
	CacheHit  CacheUse = "hit"  // all that it has read was cached
	CacheMiss CacheUse = "miss" // something was not
	CachePass CacheUse = "pass" // it has not looked for anything in the cache
)

// CacheUsed returns how a request whose context ThroughCache has made used the cache.
func CacheUsed(ctx context.Context) CacheUse {
	c, _ := ctx.Value(cacheContextKey{}).(*cacheContext)
	switch {
	case c == nil || c.hits+c.misses == 0:
		return CachePass
	case c.misses > 0:
		return CacheMiss
	}
	return CacheHit
}

// Cache returns the cache; nil without one.
func (s *Service) Cache() *cache.Cache { return s.cache }

// through returns the context of a request that goes through the cache; nil for others.
func (s *Service) through(ctx context.Context) *cacheContext {
	if s.cache == nil {
		return nil
	}
	c, _ := ctx.Value(cacheContextKey{}).(*cacheContext)
	return c
}

// countCached counts a request that went through the cache.
func (s *Service) countCached(ctx context.Context, err error) {
	c := s.through(ctx)
	if c == nil {
		return
	}
	switch {
	case errors.Is(err, buffer.ErrNoRoom): // the request is repeated
		c.hits, c.misses = 0, 0
	case err == nil:
		s.cache.Count(cache.Succeeded)
	case isFault(err):
		s.cache.Count(cache.Rejected)
	default:
		s.cache.Count(cache.Failed)
	}
}

// isFault reports whether an error is the customer's fault, so that the request had no effect.
func isFault(err error) bool {
	if _, ok := errors.AsType[*apierror.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*db.ConditionFailed](err); ok {
		return true
	}
	_, ok := errors.AsType[*db.Throttled](err)
	return ok
}

// cachedTable returns the table of a read that may use the cache; nil if it may not, or
// does not fit the table: then the database reports why.
func (s *Service) cachedTable(name string, consistent bool) *schema.Table {
	if consistent {
		return nil
	}
	t, err := s.DB.Table(name)
	if err != nil || s.cache.Mode() == cache.Coherent && s.DB.HidesExpired(t) {
		return nil
	}
	return t
}

// getOne reads an item, from the cache if the request goes through it. It is a hit if the
// database was not read.
func (s *Service) getOne(ctx context.Context, g db.Get, key item.Item) (it item.Item, hit bool, err error) {
	c := s.through(ctx)
	if c == nil {
		it, err = s.DB.GetOne(ctx, g, key)
		return it, false, err
	}
	t := s.cachedTable(g.Table, g.Consistent)
	if t == nil || g.Fit != nil && g.Fit(t) != nil || t.CheckKey(key) != nil {
		it, err = s.DB.GetOne(ctx, g, key)
		return it, false, err
	}
	var usual [keyspace.UsualBytes]byte // so that a hit allocates nothing for its key
	it, hit, read := s.cache.Item(keyspace.Item(usual[:0], t, key))
	if hit {
		c.hits++
		return it, true, nil
	}
	c.misses++
	if it, err = s.DB.GetOne(ctx, g, key); err != nil {
		read.Cancel()
		return nil, false, err
	}
	if faultChangedRead(ctx) {
		read.Cancel()
		return it, false, nil
	}
	read.Item(it)
	return it, false, nil
}

// faultChangedRead reports whether an injected fault has changed what the request has read. That is for
// this request only, so it is not cached.
func faultChangedRead(ctx context.Context) bool {
	f := faultsOf(ctx)
	return f != nil && f.changedRead
}

// getWithin reads items as DB.GetWithin does, those that are cached from the cache if the request goes
// through it. hits marks them, by the position of their keys; it is nil if there are
// none.
func (s *Service) getWithin(ctx context.Context, g db.Get, maxBytes int, keys []item.Item) (found []item.Item, hits []bool, err error) {
	c := s.through(ctx)
	var t *schema.Table
	if c != nil {
		t = s.cachedTable(g.Table, g.Consistent)
	}
	if t == nil || g.Fit != nil && g.Fit(t) != nil {
		found, err = s.DB.GetWithin(ctx, g, maxBytes, keys...)
		return found, nil, err
	}
	b := cachedBatch{hits: make([]bool, len(keys)), items: make([]item.Item, len(keys)), reads: make([]*cache.Read, len(keys))}
	defer b.cancel()
	for i, key := range keys {
		if t.CheckKey(key) == nil {
			b.items[i], b.hits[i], b.reads[i] = s.cache.Item(keyspace.Item(nil, t, key))
		}
		if b.hits[i] {
			c.hits++
			continue
		}
		c.misses++
		b.missed, b.missedAt = append(b.missed, key), append(b.missedAt, i)
	}
	throttled := g.Throttled
	g.Throttled = func(i int, err error) {
		b.end(b.missedAt[i], func(r *cache.Read) { r.Cancel() })
		throttled(b.missedAt[i], err)
		b.missedAt[i] = -1
	}
	read, err := s.DB.GetWithin(ctx, g, maxBytes, b.missed...)
	if err != nil {
		return nil, nil, err
	}
	if faultChangedRead(ctx) {
		b.cancel()
	}
	return b.merge(read), b.hits, nil
}

// cachedBatch is the keys of one table of a BatchGetItem.
type cachedBatch struct {
	hits  []bool        // by key
	items []item.Item   // by key: the hits
	reads []*cache.Read // by key: the misses; nil if it is ended

	missed   []item.Item // the keys to read
	missedAt []int       // their positions; -1 if it was throttled
}

// merge returns the items of hits and of misses in the order of their keys, without those
// that were throttled, until the first that was not read.
func (b *cachedBatch) merge(read []item.Item) (found []item.Item) {
	next := 0
	for _, at := range b.missedAt {
		if at < 0 {
			continue
		}
		for ; next < at; next++ {
			if b.hits[next] {
				found = append(found, b.items[next])
			}
		}
		if len(read) == 0 {
			return found
		}
		it := read[0]
		b.end(at, func(r *cache.Read) { r.Item(it) })
		found, read, next = append(found, it), read[1:], at+1
	}
	for ; next < len(b.hits); next++ {
		if b.hits[next] {
			found = append(found, b.items[next])
		}
	}
	return found
}

// end ends a read.
func (b *cachedBatch) end(i int, end func(*cache.Read)) {
	if r := b.reads[i]; r != nil {
		b.reads[i] = nil
		end(r)
	}
}

// cancel ends the reads that have not ended.
func (b *cachedBatch) cancel() {
	for i := range b.reads {
		b.end(i, func(r *cache.Read) { r.Cancel() })
	}
}

// readRange reads a page, from the cache if the request goes through it. It is a hit if
// the database was not read.
func (s *Service) readRange(ctx context.Context, r *reading) (p db.Page, hit bool, err error) {
	if s.cache == nil || !r.plan.At.IsZero() {
		p, err = s.DB.Range(ctx, r.plan)
		return p, false, err
	}
	page, read := s.findPage(ctx, r)
	if page != nil {
		for _, it := range page.Items {
			if err := r.add(it); err != nil {
				return db.Page{}, false, err
			}
		}
		return db.Page{Count: page.Count, Scanned: page.Scanned, Last: page.Last}, true, nil
	}
	if read == nil {
		p, err = s.DB.Range(ctx, r.plan)
		return p, false, err
	}
	result := &cache.Page{}
	memory := buffer.TallyOf(ctx, maxPageItems, db.MaxPageBytes+item.MaxSize)
	plan := r.plan
	plan.Take = func(it item.Item) error {
		shown := project(it, r.paths)
		if result != nil && memory.Add(1, len(shown)) {
			shown = bytes.Clone(shown)
			result.Items = append(result.Items, shown)
		} else {
			result = nil // without memory for a copy, the page is not cached
		}
		return r.add(shown)
	}
	if p, err = s.DB.Range(ctx, plan); err != nil || result == nil || faultChangedRead(ctx) {
		read.Cancel()
		return p, false, err
	}
	result.Count, result.Scanned, result.Last = p.Count, p.Scanned, item.Item(bytes.Clone(p.Last))
	read.Page(result)
	return p, false, nil
}

// findPage looks for the result of a query or scan, if it goes through the cache. Without
// a result, and with a read, the result is to be cached.
func (s *Service) findPage(ctx context.Context, r *reading) (*cache.Page, *cache.Read) {
	c := s.through(ctx)
	if c == nil || !s.cache.CachesQueries() {
		return nil, nil
	}
	t := s.cachedTable(r.plan.Table, r.in.ConsistentRead)
	if t == nil {
		return nil, nil
	}
	plan := r.plan
	if plan.Fit(t, &plan) != nil {
		return nil, nil
	}
	scope := cache.TableScope(t.ID)
	if r.index == nil && plan.Partition != nil {
		scope = cache.QueryScope(keyspace.Partition(nil, t.ID, 0, plan.Partition))
	}
	page, read := s.cache.Query(r.cacheKey(t, &plan), scope)
	if page != nil {
		c.hits++
	} else {
		c.misses++
	}
	return page, read
}

// cacheKey returns the key under which the result of a query or scan is cached: all that
// the result depends on, with the names and values of its expressions in place. Two
// requests that differ in their texts only have the same key. It does not have
// ReturnConsumedCapacity, as a hit consumes nothing.
func (r *reading) cacheKey(t *schema.Table, plan *db.Range) []byte {
	k := queryKey{'q'}
	k = binary.BigEndian.AppendUint32(k, t.ID)
	index := uint16(0)
	if r.index != nil {
		index = r.index.ID
	}
	k = binary.BigEndian.AppendUint16(k, index)
	k.flags(plan.Partition != nil, plan.Reverse, plan.Whole, plan.CountOnly, r.paths != nil)
	k.number(plan.Limit)
	k.number(plan.Segment)
	k.number(plan.Segments)
	k.bytes(plan.After)
	k.values(plan.Partition)
	k.values(plan.Bound.Equals)
	k.number(int(plan.Bound.Op))
	k.values(plan.Bound.Values)
	k = r.filter.AppendTo(k)
	k.number(len(r.paths))
	for _, p := range r.paths {
		k.number(len(p))
		for _, step := range p {
			k.flags(step.IsIndex)
			k.number(step.Index)
			k.bytes([]byte(step.Name))
		}
	}
	return k
}

// queryKey is a key that is being made. Each part has its length, or a fixed one.
type queryKey []byte

func (k *queryKey) number(n int) { *k = binary.AppendVarint(*k, int64(n)) }

func (k *queryKey) bytes(b []byte) {
	k.number(len(b))
	*k = append(*k, b...)
}

func (k *queryKey) values(values []item.Value) {
	k.number(len(values))
	for _, v := range values {
		k.bytes(v)
	}
}

func (k *queryKey) flags(set ...bool) {
	for _, f := range set {
		if f {
			*k = append(*k, 1)
		} else {
			*k = append(*k, 0)
		}
	}
}
