// Package valuecache keeps the newest values of keys in memory.
package valuecache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Cache keeps values that were read or written lately, so that the next who
// asks for one need not search Pebble's tables. It never holds a value that is
// not the newest: a write forgets its keys before it is visible, and what was read
// before it was is not kept.
//
// Values lie in chunks of bytes, and what finds them has no pointers: there may
// be millions, and who collects garbage need not look at each. Nothing is written
// over in a chunk, which is let go as a whole: a value can be shown without a copy.
type Cache struct {
	seed   maphash.Seed
	grow   func(bytes int) // told when it takes more than ever
	step   int64           // by which it grows
	left   atomic.Int64    // of the last step
	shards [memoryShards]memoryShard
}

const memoryShards = 64

type memoryShard struct {
	mu     sync.Mutex
	writes uint64           // of keys of this shard, that are visible
	under  int              // writes under way
	swept  bool             // a range was deleted, and since then writes were under way all the time
	values map[uint64]place // by hash
	chunks [][]byte         // the oldest first
	gone   int              // chunks that were let go
	bytes  int64            // of all chunks, whether used or not
	live   int64            // bytes of memos that are in values
	taken  int64            // the most that it ever held
	most   int64
	missed []uint32  // keys that were asked for and had no value, by a part of their hash
	marked int       // how many of these there are, at most
	begins [256]bool // first bytes of the keys that it ever held
}

// place is where a value lies: the number of its chunk, counted from the first that
// ever was, and where it begins there.
type place uint64

const placeBits = 32

func placeAt(chunk, at int) place { return place(chunk)<<placeBits | place(at) }

const (
	// A chunk is as large as all before it, within these bounds.
	minChunk = 4 << 10
	maxChunk = 256 << 10
	// likelyBytes are enough for most values.
	likelyBytes = 4 << 10
	// growBytes is by how much the memory grows.
	growBytes = 1 << 20
)

func New(bytes int64, grow func(bytes int)) *Cache {
	m := &Cache{seed: maphash.MakeSeed(), grow: grow, step: min(growBytes, max(1, bytes/16))}
	for i := range m.shards {
		m.shards[i] = memoryShard{values: make(map[uint64]place), most: bytes / memoryShards}
	}
	return m
}

func (m *Cache) shard(key []byte) (s *memoryShard, hash uint64) {
	hash = maphash.Bytes(m.seed, key)
	return &m.shards[hash%memoryShards], hash
}

// Get is the value of key, which must not be changed; nil if it is not known.
// Whoever then reads the value hands it over with the writes he was told.
func (m *Cache) Get(key []byte) (value []byte, writes uint64) {
	s, hash := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.values[hash]; ok {
		if r := s.memo(at); string(r.key()) == string(key) {
			r.ask()
			value = r.value()
		}
	}
	return value, s.writes
}

// Keep takes a value that was read after get told the writes, unless there were
// others meanwhile, or are, or it would push out another the first time.
func (m *Cache) Keep(key, value []byte, writes uint64) {
	s, hash := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.values[hash]; known {
		return // another has read it too
	}
	if s.writes == writes && s.under == 0 && (!s.full(memoBytes(key, value)) || s.again(hash)) {
		m.put(s, hash, key, value)
	}
}

// full tells whether so many bytes that are new would push out something, or take
// the place that something was pushed out for.
func (s *memoryShard) full(bytes int) bool {
	return s.held()+s.nextChunk() > s.most && (s.gone > 0 || s.room() < bytes)
}

// held is what it takes, and needed what it would if nothing in it were replaced.
func (s *memoryShard) held() int64   { return s.bytes + int64(len(s.values))*findBytes }
func (s *memoryShard) needed() int64 { return s.live + int64(len(s.values))*findBytes }

// again tells whether a key was asked for lately: since half as many keys were missed as
// there are values, at most, for then all are forgotten. Without it, who reads a large
// table once would push out all that others ask for, and keys that are asked for
// equally often would push out each other.
func (s *memoryShard) again(hash uint64) bool {
	if s.missed == nil {
		s.missed = make([]uint32, max(1, len(s.values)))
	}
	slot, mark := &s.missed[hash>>32%uint64(len(s.missed))], uint32(hash)
	if *slot == mark {
		return true
	}
	if s.marked++; s.marked > len(s.missed)/2 {
		clear(s.missed)
		s.marked = 0
	}
	*slot = mark
	return false
}

// ForgetRange is called once the keys of [start, end) are deleted, neither of which
// is empty. It holds nobody up for long, however much there is to forget.
func (m *Cache) ForgetRange(start, end []byte) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.writes++
		s.swept = s.swept || s.under > 0 // what these wrote may be deleted, and is not there yet
		held := s.beginsWithin(start, end)
		s.mu.Unlock()
		for n := 0; held; n++ {
			s.mu.Lock()
			n = max(n, s.gone) // what moved on is met in its new place
			if held = n < s.gone+len(s.chunks); held {
				m.forgetWithin(s, n, start, end)
			}
			s.mu.Unlock()
		}
	}
}

// beginsWithin is false if there is no key of [start, end), as far as first bytes tell.
func (s *memoryShard) beginsWithin(start, end []byte) bool {
	last := int(end[0])
	if len(end) == 1 {
		last--
	}
	return slices.Contains(s.begins[min(int(start[0]), last+1):last+1], true)
}

// forgetWithin forgets what of a chunk has a key of [start, end), and the chunk if
// that is all.
func (m *Cache) forgetWithin(s *memoryShard, n int, start, end []byte) {
	chunk, all := s.chunks[n-s.gone], true
	for at, r := range memos(chunk) {
		if bytes.Compare(r.key(), start) < 0 || bytes.Compare(r.key(), end) >= 0 {
			all = false
		} else if hash, held := m.holds(s, n, at, r); held {
			s.remove(hash)
		}
	}
	if all {
		s.chunks[n-s.gone] = nil
		s.bytes -= int64(cap(chunk))
	}
}

// put copies a value. One that is large would push out too much, and is left out.
func (m *Cache) put(s *memoryShard, hash uint64, key, value []byte) {
	size := memoBytes(key, value)
	if int64(size) > s.most/32 || size > maxChunk/4 {
		return
	}
	if s.room() < size {
		m.addChunk(s, size)
	}
	s.add(hash, key, value, 0)
}

func (s *memoryShard) room() int {
	if len(s.chunks) == 0 {
		return 0
	}
	newest := s.chunks[len(s.chunks)-1]
	return cap(newest) - len(newest)
}

func (s *memoryShard) add(hash uint64, key, value []byte, asked byte) {
	s.remove(hash)
	last := len(s.chunks) - 1
	chunk := s.chunks[last]
	s.values[hash] = placeAt(s.gone+last, len(chunk))
	s.live += int64(memoBytes(key, value))
	s.begins[key[0]] = true
	s.chunks[last] = appendMemo(chunk, key, value, asked)
}

// remove leaves a memo behind in its chunk, where nobody finds it.
func (s *memoryShard) remove(hash uint64) {
	if at, ok := s.values[hash]; ok {
		s.live -= int64(s.memo(at).bytes())
		delete(s.values, hash)
	}
}

// nextChunk is the size of the next chunk.
func (s *memoryShard) nextChunk() int64 {
	return min(max(minChunk, s.bytes), maxChunk, max(1, s.most/8))
}

// addChunk makes room for a memo, and lets old chunks go when there is no more. What
// was asked for since it came moves on, and most of all what was asked for often.
// All the others do too as long as chunks are full of what was replaced.
func (m *Cache) addChunk(s *memoryShard, size int) {
	next := max(s.nextChunk(), int64(size))
	var worth []memo
	for len(s.chunks) > 0 && s.held()+next > s.most {
		worth = m.letGo(s, worth)
	}
	s.chunks = append(s.chunks, make([]byte, 0, next))
	s.bytes += next
	if more := s.held() - s.taken; more > 0 {
		m.take(more)
		s.taken += more
	}
	slices.SortStableFunc(worth, func(a, b memo) int { return cmp.Compare(b.asked(), a.asked()) })
	half := int(next) / 2 // or nothing would be left for what is new
	for _, r := range worth {
		if half -= r.bytes(); half < 0 {
			break
		}
		s.add(maphash.Bytes(m.seed, r.key()), r.key(), r.value(), max(r.asked(), 1)-1)
	}
}

// letGo lets the oldest chunk go. It appends what is worth to move on.
func (m *Cache) letGo(s *memoryShard, worth []memo) []memo {
	oldest := s.chunks[0]
	all := s.needed() < s.most/4*3
	for at, r := range memos(oldest) {
		if hash, held := m.holds(s, s.gone, at, r); held {
			s.remove(hash)
			if all || r.asked() > 0 {
				worth = append(worth, r)
			}
		}
	}
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.gone++
	s.bytes -= int64(cap(oldest))
	return worth
}

// holds tells whether a memo in a chunk is what is found by its hash, and was not replaced.
func (m *Cache) holds(s *memoryShard, chunk, at int, r memo) (hash uint64, ok bool) {
	hash = maphash.Bytes(m.seed, r.key())
	found, ok := s.values[hash]
	return hash, ok && found == placeAt(chunk, at)
}

// take has the memory grow when the last step is used up.
func (m *Cache) take(bytes int64) {
	for left := m.left.Add(-bytes); left < 0; left = m.left.Add(m.step) {
		m.grow(int(m.step))
	}
}

func (s *memoryShard) memo(at place) memo {
	return memo(s.chunks[int(at>>placeBits)-s.gone][at&(1<<placeBits-1):])
}

// memo is a value with its key, and whatever follows it in its chunk: how often it
// was asked for, the length of the key and that of the value, then both.
type memo []byte

const (
	memoHead = 1 + 2 + 4
	// findBytes is about what it takes to find a memo.
	findBytes = 24
	// oftenAsked is from when on it is not counted how often.
	oftenAsked = 3
)

// memos are those of a chunk and where they begin.
func memos(chunk []byte) iter.Seq2[int, memo] {
	return func(yield func(int, memo) bool) {
		for at := 0; at < len(chunk); {
			r := memo(chunk[at:])
			if !yield(at, r) {
				return
			}
			at += r.bytes()
		}
	}
}

func memoBytes(key, value []byte) int { return memoHead + len(key) + len(value) }

func appendMemo(dst, key, value []byte, asked byte) []byte {
	dst = append(dst, asked)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(key)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(value)))
	return append(append(dst, key...), value...)
}

func (r memo) asked() byte     { return r[0] }
func (r memo) ask()            { r[0] = min(r[0]+1, oftenAsked) }
func (r memo) keyBytes() int   { return int(binary.LittleEndian.Uint16(r[1:])) }
func (r memo) valueBytes() int { return int(binary.LittleEndian.Uint32(r[3:])) }
func (r memo) bytes() int      { return memoHead + r.keyBytes() + r.valueBytes() }
func (r memo) key() []byte     { return r[memoHead : memoHead+r.keyBytes()] }

func (r memo) value() []byte {
	end := r.bytes()
	return r[memoHead+r.keyBytes() : end : end]
}
