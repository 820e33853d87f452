package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/stator-db/stator/internal/store"
)

// Change is what one Update or DeleteRange has written.
type Change struct {
	Stamp store.Stamp
	Edits []byte // docs/formats/standby.md
}

// The kinds of edits.
const (
	editSet         = 1
	editDelete      = 2
	editDeleteRange = 3
)

// appendEdit adds an edit to those of a change.
func appendEdit(b []byte, kind byte, key, value []byte) []byte {
	b = binary.AppendUvarint(append(b, kind), uint64(len(key)))
	b = append(b, key...)
	if kind != editDelete {
		b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
	}
	return b
}

// editBytes is the size of what appendEdit adds.
func editBytes(kind byte, key, value []byte) int {
	size := 1 + uvarintBytes(len(key)) + len(key)
	if kind != editDelete {
		size += uvarintBytes(len(value)) + len(value)
	}
	return size
}

func uvarintBytes(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// cutBytes takes a length and as many bytes from b.
func cutBytes(b []byte) (content, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	return b[width : width+int(n)], b[width+int(n):], true
}

// decodeEdits calls fn with each edit of a change.
func decodeEdits(edits []byte, fn func(kind byte, key, value []byte) error) error {
	for len(edits) > 0 {
		kind := edits[0]
		key, rest, ok := cutBytes(edits[1:])
		var value []byte
		if ok && kind != editDelete {
			value, rest, ok = cutBytes(rest)
		}
		if !ok || len(key) == 0 || key[0] == store.Reserved || kind < editSet || kind > editDeleteRange || kind == editDeleteRange && !isRange(key, value) {
			return fmt.Errorf("a change cannot be decoded: %w", store.ErrCorrupt)
		}
		if err := fn(kind, key, value); err != nil {
			return err
		}
		edits = rest
	}
	return nil
}

// isRange reports whether a range that is deleted has keys, and none of the engine's.
func isRange(start, end []byte) bool {
	return bytes.Compare(start, end) < 0 && bytes.Compare(end, []byte{store.Reserved}) <= 0
}

// addEdits adds the edits of a change to a batch.
func addEdits(batch *pebble.Batch, edits []byte) error {
	return decodeEdits(edits, func(kind byte, key, value []byte) error {
		switch kind {
		case editSet:
			return batch.Set(key, value, nil)
		case editDelete:
			return batch.Delete(key, nil)
		default:
			return batch.DeleteRange(key, value, nil)
		}
	})
}

// eachEdit calls fn with every edit of a batch.
func eachEdit(r batchrepr.Reader, fn func(kind byte, key, value []byte)) {
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			panic(fmt.Sprintf("a batch of our own cannot be read: %v", err))
		}
		if !ok {
			return
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			fn(editSet, key, value)
		case pebble.InternalKeyKindDelete:
			fn(editDelete, key, nil)
		case pebble.InternalKeyKindRangeDelete:
			fn(editDeleteRange, key, value)
		default:
			panic(fmt.Sprintf("a batch has an edit of kind %s", kind))
		}
	}
}
