package expr

import (
	"sync"
	"sync/atomic"
)

// Cache keeps parsed expressions, so that a text which comes with every
// request is parsed once. It may be used by many at once. A nil Cache keeps
// nothing.
//
// It has two generations of at most size entries. A new entry goes into the
// young one; when that is full it becomes the old one, and what the old one
// held is forgotten unless it was used since.
type Cache struct {
	size       int64
	young, old atomic.Pointer[generation]
}

type generation struct {
	entries sync.Map // of text with its kind to what was parsed
	count   atomic.Int64
}

type cacheKey struct {
	kind Kind
	text string
}

// NewCache makes a cache that keeps between size and twice as many texts.
func NewCache(size int) *Cache {
	c := &Cache{size: int64(size)}
	c.young.Store(new(generation))
	c.old.Store(new(generation))
	return c
}

// ParseCondition is the function ParseCondition, remembered.
func (c *Cache) ParseCondition(kind Kind, text string) (*ParsedCondition, error) {
	return Cached(c, kind, text, func(text string) (*ParsedCondition, error) { return ParseCondition(kind, text) })
}

// ParseKeyCondition is the function ParseKeyCondition, remembered.
func (c *Cache) ParseKeyCondition(text string) (*ParsedKeyCondition, error) {
	return Cached(c, KeyConditionExpression, text, ParseKeyCondition)
}

// ParseUpdate is the function ParseUpdate, remembered.
func (c *Cache) ParseUpdate(text string) (*ParsedUpdate, error) {
	return Cached(c, UpdateExpression, text, ParseUpdate)
}

// ParseProjection is the function ParseProjection, remembered.
func (c *Cache) ParseProjection(text string) (*ParsedProjection, error) {
	return Cached(c, ProjectionExpression, text, ParseProjection)
}

// Cached finds what was parsed before, or parses. Faults are not kept.
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
		c.keep(young, key, v)
		return v.(*T), nil
	}
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	c.keep(young, key, parsed)
	return parsed, nil
}

func (c *Cache) keep(young *generation, key cacheKey, parsed any) {
	if _, had := young.entries.LoadOrStore(key, parsed); had {
		return
	}
	if young.count.Add(1) >= c.size && c.young.CompareAndSwap(young, new(generation)) {
		c.old.Store(young)
	}
}
