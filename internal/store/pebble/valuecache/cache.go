// Package valuecache caches the values of single keys.
//
// The cache never returns a value that is not the newest: Write and RemoveRange say
// which order of calls that takes.
package valuecache

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// Cache holds values that were read or written recently, by their keys. A Write
// invalidates its keys before the new values are visible, and a value that was read
// before that is not added.
//
// Values are stored in chunks of bytes, found by a map without pointers: there may be
// millions, and the garbage collector does not have to scan each of them. A chunk is
// appended to, never overwritten, and evicted as a whole, so a value is returned
// without a copy.
type Cache struct {
	seed   maphash.Seed
	grow   func(bytes int) // called when the cache needs more memory than ever before
	step   int64           // by which it grows
	left   atomic.Int64    // of the last step
	shards [shardCount]shard
}

const shardCount = 64

type shard struct {
	mu           sync.Mutex
	version      uint64              // writes of keys of this shard that are visible
	pending      int                 // writes that have begun and not ended
	rangeDeleted bool                // a range was deleted, and writes have been pending ever since
	index        map[uint64]location // by hash
	chunks       [][]byte            // the oldest first
	evicted      int                 // chunks evicted so far
	bytes        int64               // of all chunks, whether used or not
	live         int64               // bytes of the entries that are in index
	peak         int64               // the largest size so far
	capacity     int64
	misses       []uint32  // recently missed keys, by a part of their hash; see recentlyMissed
	missCount    int       // an upper bound of how many there are in misses
	hits, missed int64     // of Get
	firstBytes   [256]bool // first bytes of all keys that were ever added
}

// location is where an entry is stored: the number of its chunk, counted from the first
// chunk of the shard, and the offset in it.
type location uint64

const offsetBits = 32

func locationOf(chunk, offset int) location {
	return location(chunk)<<offsetBits | location(offset)
}

const (
	// A chunk is as large as all before it, within these bounds.
	minChunkBytes = 4 << 10
	maxChunkBytes = 256 << 10
	// typicalBytes is enough for most values.
	typicalBytes = 4 << 10
	// maxStepBytes bounds the step by which a cache grows.
	maxStepBytes = 1 << 20
)

// New returns a cache of at most capacity bytes. It calls grow before it uses more memory
// than ever before, with the number of bytes.
func New(capacity int64, grow func(bytes int)) *Cache {
	c := &Cache{seed: maphash.MakeSeed(), grow: grow, step: min(maxStepBytes, max(1, capacity/16))}
	for i := range c.shards {
		c.shards[i] = shard{index: make(map[uint64]location), capacity: capacity / shardCount}
	}
	return c
}

func (c *Cache) shard(key []byte) (s *shard, hash uint64) {
	hash = maphash.Bytes(c.seed, key)
	return &c.shards[hash%shardCount], hash
}

// Get returns the value of key, which must not be changed; nil on a miss. A caller that
// then reads the value elsewhere passes it to Add, with the version returned here.
func (c *Cache) Get(key []byte) (value []byte, version uint64) {
	s, hash := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.index[hash]; ok {
		if e := s.entry(at); string(e.key()) == string(key) {
			e.hit()
			value = e.value()
		}
	}
	if value != nil {
		s.hits++
	} else {
		s.missed++
	}
	return value, s.version
}

// Lookups returns how often Get returned a value, and how often it did not.
func (c *Cache) Lookups() (hits, misses int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		hits, misses = hits+s.hits, misses+s.missed
		s.mu.Unlock()
	}
	return hits, misses
}

// Add caches a value that was read after Get returned version. It is not added if a write
// to the shard has become visible since or is pending, nor if it would evict another
// value on its key's first miss.
func (c *Cache) Add(key, value []byte, version uint64) {
	s, hash := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.index[hash]; known {
		return // another reader was faster
	}
	if s.version == version && s.pending == 0 && (!s.full(entryBytes(key, value)) || s.recentlyMissed(hash)) {
		c.put(s, hash, key, value)
	}
}

// full reports whether a new entry of this size would evict something, or use the space
// that something was evicted for.
func (s *shard) full(bytes int) bool {
	return s.size()+s.nextChunkBytes() > s.capacity && (s.evicted > 0 || s.free() < bytes)
}

// size is the memory in use; liveSize is what it would be without removed entries.
func (s *shard) size() int64     { return s.bytes + int64(len(s.index))*indexEntryBytes }
func (s *shard) liveSize() int64 { return s.live + int64(len(s.index))*indexEntryBytes }

// recentlyMissed reports whether a key was missed before. A key is admitted on its second
// miss; the filter is cleared once it is half full. Without it, one scan by key of a large
// table would evict all other values, and equally popular keys would evict each other.
func (s *shard) recentlyMissed(hash uint64) bool {
	if s.misses == nil {
		s.misses = make([]uint32, max(1, len(s.index)))
	}
	slot, mark := &s.misses[hash>>32%uint64(len(s.misses))], uint32(hash)
	if *slot == mark {
		return true
	}
	if s.missCount++; s.missCount > len(s.misses)/2 {
		clear(s.misses)
		s.missCount = 0
	}
	*slot = mark
	return false
}

// RemoveRange removes the keys of [start, end), neither of which is empty. It is called
// once their deletion is visible. It holds no lock for long, however much there is to
// remove.
func (c *Cache) RemoveRange(start, end []byte) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.version++
		s.rangeDeleted = s.rangeDeleted || s.pending > 0 // a pending write may be of a key that was deleted
		more := s.mayHaveKeysIn(start, end)
		s.mu.Unlock()
		for n := 0; more; n++ {
			s.mu.Lock()
			n = max(n, s.evicted) // entries that were moved are found in their new chunk
			if more = n < s.evicted+len(s.chunks); more {
				c.removeInChunk(s, n, start, end)
			}
			s.mu.Unlock()
		}
	}
}

// mayHaveKeysIn is false if the first bytes of all keys rule [start, end) out.
func (s *shard) mayHaveKeysIn(start, end []byte) bool {
	last := int(end[0])
	if len(end) == 1 {
		last--
	}
	return slices.Contains(s.firstBytes[min(int(start[0]), last+1):last+1], true)
}

// removeInChunk removes the entries of a chunk whose keys are in [start, end), and the
// chunk if these were all.
func (c *Cache) removeInChunk(s *shard, n int, start, end []byte) {
	chunk, all := s.chunks[n-s.evicted], true
	for offset, e := range entries(chunk) {
		if bytes.Compare(e.key(), start) < 0 || bytes.Compare(e.key(), end) >= 0 {
			all = false
		} else if hash, current := c.isCurrent(s, n, offset, e); current {
			s.remove(hash)
		}
	}
	if all {
		s.chunks[n-s.evicted] = nil
		s.bytes -= int64(cap(chunk))
	}
}

// put adds a copy of a value. A large one would evict too much, and is left out.
func (c *Cache) put(s *shard, hash uint64, key, value []byte) {
	size := entryBytes(key, value)
	if int64(size) > s.capacity/32 || size > maxChunkBytes/4 {
		return
	}
	if s.free() < size {
		c.addChunk(s, size)
	}
	s.append(hash, key, value, 0)
}

// free is how many bytes fit into the newest chunk.
func (s *shard) free() int {
	if len(s.chunks) == 0 {
		return 0
	}
	newest := s.chunks[len(s.chunks)-1]
	return cap(newest) - len(newest)
}

func (s *shard) append(hash uint64, key, value []byte, hits byte) {
	s.remove(hash)
	last := len(s.chunks) - 1
	chunk := s.chunks[last]
	s.index[hash] = locationOf(s.evicted+last, len(chunk))
	s.live += int64(entryBytes(key, value))
	s.firstBytes[key[0]] = true
	s.chunks[last] = appendEntry(chunk, key, value, hits)
}

// remove takes an entry out of the index. Its bytes stay in their chunk.
func (s *shard) remove(hash uint64) {
	if at, ok := s.index[hash]; ok {
		s.live -= int64(s.entry(at).bytes())
		delete(s.index, hash)
	}
}

func (s *shard) nextChunkBytes() int64 {
	return min(max(minChunkBytes, s.bytes), maxChunkBytes, max(1, s.capacity/8))
}

// addChunk makes space for an entry of this size, and evicts the oldest chunks when the
// shard is full. Their entries that were hit are moved to the new chunk, those with the
// most hits first. So are all others, as long as much of the shard is taken by removed
// entries.
func (c *Cache) addChunk(s *shard, size int) {
	next := max(s.nextChunkBytes(), int64(size))
	var moved []cacheEntry
	for len(s.chunks) > 0 && s.size()+next > s.capacity {
		moved = c.evictOldest(s, moved)
	}
	s.chunks = append(s.chunks, make([]byte, 0, next))
	s.bytes += next
	if more := s.size() - s.peak; more > 0 {
		c.reserve(more)
		s.peak += more
	}
	slices.SortStableFunc(moved, func(a, b cacheEntry) int { return cmp.Compare(b.hits(), a.hits()) })
	half := int(next) / 2 // the rest is for new entries
	for _, e := range moved {
		if half -= e.bytes(); half < 0 {
			break
		}
		s.append(maphash.Bytes(c.seed, e.key()), e.key(), e.value(), max(e.hits(), 1)-1)
	}
}

// evictOldest evicts the oldest chunk. It appends the entries that are worth moving.
func (c *Cache) evictOldest(s *shard, moved []cacheEntry) []cacheEntry {
	oldest := s.chunks[0]
	all := s.liveSize() < s.capacity/4*3
	for offset, e := range entries(oldest) {
		if hash, current := c.isCurrent(s, s.evicted, offset, e); current {
			s.remove(hash)
			if all || e.hits() > 0 {
				moved = append(moved, e)
			}
		}
	}
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.evicted++
	s.bytes -= int64(cap(oldest))
	return moved
}

// isCurrent reports whether the index has this entry, which then was not replaced.
func (c *Cache) isCurrent(s *shard, chunk, offset int, e cacheEntry) (hash uint64, ok bool) {
	hash = maphash.Bytes(c.seed, e.key())
	found, ok := s.index[hash]
	return hash, ok && found == locationOf(chunk, offset)
}

// reserve has the cache grow when the last step is used up.
func (c *Cache) reserve(bytes int64) {
	for left := c.left.Add(-bytes); left < 0; left = c.left.Add(c.step) {
		c.grow(int(c.step))
	}
}

func (s *shard) entry(at location) cacheEntry {
	return cacheEntry(s.chunks[int(at>>offsetBits)-s.evicted][at&(1<<offsetBits-1):])
}
