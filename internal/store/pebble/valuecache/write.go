package valuecache

// Write is a write of some keys, from before their new values are visible until after.
// While it lasts, readers of these keys miss, and what they read is not cached. The zero
// Write is ready for Begin; it may be used again after End, and keeps its memory for that.
type Write struct {
	cache     *Cache
	keys      []writtenKey
	committed bool
}

// writtenKey is a key of a Write, with the value to cache at its end; nil for none.
type writtenKey struct {
	shard      *shard
	hash       uint64
	key, value []byte
}

// maxWriteKeys is how many keys a Write keeps the memory for.
const maxWriteKeys = 128

// Begin starts a write. End must follow.
func (w *Write) Begin(c *Cache) { w.cache, w.committed = c, false }

// Invalidate removes a key, which is not cached when the write ends. It is called before
// the new value is visible, and key must not be changed before End.
func (w *Write) Invalidate(key []byte) { w.add(key, nil, false) }

// Replace removes a key like Invalidate. Its new value is cached when the write ends, if
// it replaces another value or there is free space: a value that is new is often one of
// many that are loaded and not read soon, and does not evict others.
func (w *Write) Replace(key, value []byte, existed bool) { w.add(key, value, existed) }

func (w *Write) add(key, value []byte, existed bool) {
	s, hash := w.cache.shard(key)
	s.mu.Lock()
	s.pending++
	s.remove(hash)
	if !existed && s.full(typicalBytes) {
		value = nil
	}
	s.mu.Unlock()
	w.keys = append(w.keys, writtenKey{s, hash, key, value})
}

// Commit is called once the new values are visible. Without it End caches none of them.
func (w *Write) Commit() { w.committed = true }

// End ends a write, whether or not it was committed, before another write of the same keys
// can begin.
func (w *Write) End() {
	for i := range w.keys {
		k := &w.keys[i]
		if !w.committed {
			k.value = nil
		}
		w.cache.endWrite(k)
	}
	clear(w.keys)
	w.keys = w.keys[:0]
	if cap(w.keys) > maxWriteKeys {
		w.keys = nil
	}
}

func (c *Cache) endWrite(k *writtenKey) {
	s := k.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	s.version++
	cacheable := !s.rangeDeleted
	s.rangeDeleted = s.rangeDeleted && s.pending > 0
	if k.value != nil && cacheable {
		c.put(s, k.hash, k.key, k.value)
	}
}
