package valuecache

import (
	"encoding/binary"
	"iter"
)

// cacheEntry is a key with its value, followed by the rest of its chunk. It is stored as
// the number of hits, the lengths of key and value, the key and the value.
type cacheEntry []byte

const (
	headerBytes = 1 + 2 + 4
	// indexEntryBytes is about the memory that an entry takes in the index.
	indexEntryBytes = 24
	// maxHits is where hits are no longer counted.
	maxHits = 3
)

// entries yields the entries of a chunk with their offsets.
func entries(chunk []byte) iter.Seq2[int, cacheEntry] {
	return func(yield func(int, cacheEntry) bool) {
		for offset := 0; offset < len(chunk); {
			e := cacheEntry(chunk[offset:])
			if !yield(offset, e) {
				return
			}
			offset += e.bytes()
		}
	}
}

func entryBytes(key, value []byte) int { return headerBytes + len(key) + len(value) }

func appendEntry(dst, key, value []byte, hits byte) []byte {
	dst = append(dst, hits)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(key)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(value)))
	return append(append(dst, key...), value...)
}

func (e cacheEntry) hits() byte      { return e[0] }
func (e cacheEntry) hit()            { e[0] = min(e[0]+1, maxHits) }
func (e cacheEntry) keyBytes() int   { return int(binary.LittleEndian.Uint16(e[1:])) }
func (e cacheEntry) valueBytes() int { return int(binary.LittleEndian.Uint32(e[3:])) }
func (e cacheEntry) bytes() int      { return headerBytes + e.keyBytes() + e.valueBytes() }
func (e cacheEntry) key() []byte     { return e[headerBytes : headerBytes+e.keyBytes()] }

func (e cacheEntry) value() []byte {
	end := e.bytes()
	return e[headerBytes+e.keyBytes() : end : end]
}
