// Package codec is the stored form of items, tables' descriptions, tokens and
// counts.
//
// All but the counts begin with the number of their format, so that they are
// never empty and can change.
package codec

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

const (
	formatItemUnchecked = 1 // without a checksum
	formatItem          = 2
	formatTable         = 1

	itemHead = 1 + 4 // format, CRC-32C of the item
)

// The whole values of markers: of an expiry entry, and of a dropped table.
const (
	FormatExpiry  = 1
	FormatDropped = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeItem returns the stored form of an item.
func EncodeItem(it item.Item) []byte {
	return AppendItem(make([]byte, 0, len(it)+itemHead), it)
}

// AppendItem appends the stored form of an item.
func AppendItem(dst []byte, it item.Item) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, formatItem), crc32.Checksum(it, castagnoli))
	return append(dst, it...)
}

// DecodeItem returns the item of a stored form, and nil for nil. The item shares
// its memory. A changed byte is an error that wraps store.ErrCorrupt.
func DecodeItem(value []byte) (item.Item, error) {
	switch {
	case value == nil:
		return nil, nil
	case len(value) > itemHead && value[0] == formatItem:
		it := item.Item(value[itemHead:])
		if crc32.Checksum(it, castagnoli) != binary.BigEndian.Uint32(value[1:]) {
			return nil, fmt.Errorf("the checksum of a stored item is wrong: %w", store.ErrCorrupt)
		}
		return it, nil
	case len(value) > 1 && value[0] == formatItemUnchecked:
		return item.Item(value[1:]), nil
	}
	return nil, fmt.Errorf("a stored item begins with %x: %w", value[:min(4, len(value))], store.ErrCorrupt)
}

// EncodeTable returns the stored form of a table's description.
func EncodeTable(t *schema.Table) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("table %s cannot be written as JSON: %v", t.Name, err))
	}
	return append([]byte{formatTable}, b...)
}

// DecodeTable returns the description of a stored form.
func DecodeTable(value []byte) (*schema.Table, error) {
	if len(value) == 0 || value[0] != formatTable {
		return nil, fmt.Errorf("its description has an unknown format: %w", store.ErrCorrupt)
	}
	t := new(schema.Table)
	if err := json.Unmarshal(value[1:], t); err != nil {
		return nil, fmt.Errorf("its description: %w: %w", err, store.ErrCorrupt)
	}
	return t, nil
}
