package codec

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/store"
)

// Count is a number of items and their total size.
type Count struct{ Items, Bytes int64 }

// countBytes is the length of one stored count: the index id, the items, the
// bytes.
const countBytes = 2 + 8 + 8

// EncodeCounts returns the stored form of counts by index id; 0 is the table.
func EncodeCounts(c map[uint16]Count) []byte {
	b := make([]byte, 0, countBytes*(len(c)+1))
	for _, id := range slices.Sorted(maps.Keys(c)) {
		b = binary.BigEndian.AppendUint16(b, id)
		b = binary.BigEndian.AppendUint64(b, uint64(c[id].Items))
		b = binary.BigEndian.AppendUint64(b, uint64(c[id].Bytes))
	}
	return b
}

// DecodeCounts returns the counts of a stored form.
func DecodeCounts(stored []byte) (map[uint16]Count, error) {
	if len(stored)%countBytes != 0 {
		return nil, fmt.Errorf("item counts of %d bytes, not a multiple of %d: %w", len(stored), countBytes, store.ErrCorrupt)
	}
	c := make(map[uint16]Count)
	for b := range slices.Chunk(stored, countBytes) {
		c[binary.BigEndian.Uint16(b)] = Count{int64(binary.BigEndian.Uint64(b[2:])), int64(binary.BigEndian.Uint64(b[10:]))}
	}
	return c, nil
}
