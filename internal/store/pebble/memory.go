package pebble

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// memory keeps values that were read or overwritten lately, so that the next who
// asks for one need not search Pebble's tables. It never holds a value that is
// not the newest: a write forgets its keys before it is visible, and what was read
// before it was is not kept.
type memory struct {
	seed   maphash.Seed
	grow   func(bytes int) // told when it takes more than ever
	step   int64           // by which it grows
	left   atomic.Int64    // of the last step
	shards [memoryShards]memoryShard
}

const memoryShards = 64

type memoryShard struct {
	mu     sync.Mutex
	writes uint64 // of keys of this shard, that are visible
	under  int    // writes under way
	values map[string]*kept
	bytes  int64
	taken  int64 // the most that bytes ever were, or a little more
	most   int64
	missed []uint32 // keys that were asked for and had no value, by a part of their hash

	// The values form a ring in the order in which they came; the hand goes from
	// the older to the newer and takes the first that nobody asked for since it
	// was there before (SIEVE).
	newest, hand *kept
}

type kept struct {
	key          string
	value        []byte // nil while a write is under way
	asked        bool
	older, newer *kept
}

const (
	// keptBytes is about what a value costs beside its bytes and its key's.
	keptBytes = 128
	// growBytes and shardBytes are by how much the memory and a shard grow at
	// most.
	growBytes  = 1 << 20
	shardBytes = growBytes / memoryShards
)

func newMemory(bytes int64, grow func(bytes int)) *memory {
	m := &memory{seed: maphash.MakeSeed(), grow: grow, step: min(growBytes, max(1, bytes/16))}
	for i := range m.shards {
		m.shards[i] = memoryShard{values: make(map[string]*kept), most: bytes / memoryShards}
	}
	return m
}

func (m *memory) shard(key []byte) (s *memoryShard, hash uint64) {
	hash = maphash.Bytes(m.seed, key)
	return &m.shards[hash%memoryShards], hash / memoryShards
}

// get is the value of key, which must not be changed; nil if it is not known.
// Whoever then reads the value hands it over with the writes he was told.
func (m *memory) get(key []byte) (value []byte, writes uint64) {
	s, _ := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.values[string(key)]; k != nil {
		k.asked = true
		value = k.value
	}
	return value, s.writes
}

// keep takes over a value that was read after get told the writes, unless there
// were others meanwhile, or are, or it would push out another the first time.
func (m *memory) keep(key, value []byte, writes uint64) {
	s, hash := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes == writes && s.under == 0 && (!s.full() || s.again(hash)) {
		m.put(s, key, value)
	}
}

func (s *memoryShard) full() bool { return s.bytes > s.most-s.most/64 }

// again tells whether a key was asked for before, as far as that is remembered:
// of about as many keys as there are values. Without it, who reads a large
// table once would push out all that others ask for.
func (s *memoryShard) again(hash uint64) bool {
	if s.missed == nil {
		s.missed = make([]uint32, len(s.values))
	}
	slot, mark := &s.missed[hash>>32%uint64(len(s.missed))], uint32(hash)
	if *slot == mark {
		return true
	}
	*slot = mark
	return false
}

// forget is called before a key's new value is visible, and replace follows.
func (m *memory) forget(key []byte) {
	s, _ := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under++
	if k := s.values[string(key)]; k != nil {
		s.set(k, nil)
	}
}

// replace is called once a key's new value is visible, and before another can be
// written. A value of nil is one that need not be kept, or none.
func (m *memory) replace(key, value []byte) {
	s, _ := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	s.writes++
	if value != nil {
		m.put(s, key, value)
	} else if k := s.values[string(key)]; k != nil {
		s.remove(k)
	}
}

// clear forgets everything.
func (m *memory) clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.writes++
		clear(s.values)
		s.bytes, s.newest, s.hand = 0, nil, nil
		s.mu.Unlock()
	}
}

func (m *memory) put(s *memoryShard, key, value []byte) {
	if 8*(int64(len(key)+len(value))+keptBytes) > s.most {
		value = nil // it would push out too much
	}
	k := s.values[string(key)]
	if k == nil {
		if value == nil {
			return
		}
		k = &kept{key: string(key)}
		s.add(k)
	}
	s.set(k, value)
	for s.bytes > s.most {
		s.evict()
	}
	for s.bytes > s.taken {
		more := min(shardBytes, s.most-s.taken)
		m.take(more)
		s.taken += more
	}
}

// take has the memory grow when the last step is used up.
func (m *memory) take(bytes int64) {
	for left := m.left.Add(-bytes); left < 0; left = m.left.Add(m.step) {
		m.grow(int(m.step))
	}
}

func (s *memoryShard) set(k *kept, value []byte) {
	s.bytes += int64(len(value) - len(k.value))
	k.value = value
}

func (s *memoryShard) add(k *kept) {
	s.values[k.key] = k
	s.bytes += k.size()
	if s.newest == nil {
		k.older, k.newer = k, k
	} else {
		k.older, k.newer = s.newest, s.newest.newer // behind the newest comes the oldest
		k.older.newer, k.newer.older = k, k
	}
	s.newest = k
}

func (s *memoryShard) evict() {
	if s.hand == nil {
		s.hand = s.newest.newer
	}
	for s.hand.asked {
		s.hand.asked = false
		s.hand = s.hand.newer
	}
	s.remove(s.hand)
}

func (s *memoryShard) remove(k *kept) {
	delete(s.values, k.key)
	s.bytes -= k.size()
	if s.hand == k {
		s.hand = k.newer
	}
	if s.newest == k {
		s.newest = k.older
	}
	if k.newer == k {
		s.newest, s.hand = nil, nil
		return
	}
	k.older.newer, k.newer.older = k.newer, k.older
}

func (k *kept) size() int64 { return int64(len(k.key)+len(k.value)) + keptBytes }
