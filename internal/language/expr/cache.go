package expr

import (
	"sync"
	"sync/atomic"
)

// Cache holds parsed expressions, so that a text that many requests repeat is
// parsed once. It is safe for concurrent use. A nil Cache holds nothing.
//
// It has two generations of at most size entries. A new entry is added to the
// young one. When that is full it becomes the old one, and the entries of the
// former old one that were not used since are evicted.
type Cache struct {
	size       int64
	young, old atomic.Pointer[generation]
}

type generation struct {
	entries sync.Map // cacheKey to parsed expression
	count   atomic.Int64
}

type cacheKey struct {
	kind Kind
	text string
}

// NewCache returns a cache that holds between size and twice as many texts.
func NewCache(size int) *Cache {
	c := &Cache{size: int64(size)}
	c.young.Store(new(generation))
	c.old.Store(new(generation))
	return c
}

// ParseCondition is the function ParseCondition, cached.
func (c *Cache) ParseCondition(kind Kind, text string) (*ParsedCondition, error) {
	return Cached(c, kind, text, func(text string) (*ParsedCondition, error) { return ParseCondition(kind, text) })
}

// ParseKeyCondition is the function ParseKeyCondition, cached.
func (c *Cache) ParseKeyCondition(text string) (*ParsedKeyCondition, error) {
	return Cached(c, KeyConditionExpression, text, ParseKeyCondition)
}

// ParseUpdate is the function ParseUpdate, cached.
func (c *Cache) ParseUpdate(text string) (*ParsedUpdate, error) {
	return Cached(c, UpdateExpression, text, ParseUpdate)
}

// ParseProjection is the function ParseProjection, cached.
func (c *Cache) ParseProjection(text string) (*ParsedProjection, error) {
	return Cached(c, ProjectionExpression, text, ParseProjection)
}

// Cached returns the cached expression, or parses and adds it. Faults are not
// cached.
func Cached[T any](c *Cache, kind Kind, text string, parse func(string) (*T, error)) (*T, error) {
	if c == nil {
		return parse(text)
	}
	key := cacheKey{kind, text}
	young := c.young.Load()
	if v, ok := young.entries.Load(key); ok {
		return v.(*T), nil
	}
	if v, ok := c.old.Load().entries.Load(key); ok {
		c.add(young, key, v)
		return v.(*T), nil
	}
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	c.add(young, key, parsed)
	return parsed, nil
}

func (c *Cache) add(young *generation, key cacheKey, parsed any) {
	if _, had := young.entries.LoadOrStore(key, parsed); had {
		return
	}
	if young.count.Add(1) >= c.size && c.young.CompareAndSwap(young, new(generation)) {
		c.old.Store(young)
	}
}
