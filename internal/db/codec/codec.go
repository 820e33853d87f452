// Package codec is the stored form of items and of tables' descriptions.
//
// Each begins with the number of its format, so that it is never empty and can
// change.
package codec

import (
	"encoding/json"
	"fmt"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

const (
	formatItem  = 1
	formatTable = 1
)

// EncodeItem returns the stored form of an item.
func EncodeItem(it item.Item) []byte {
	return AppendItem(make([]byte, 0, len(it)+1), it)
}

// AppendItem appends the stored form of an item.
func AppendItem(dst []byte, it item.Item) []byte {
	return append(append(dst, formatItem), it...)
}

// DecodeItem returns the item of a stored form, and nil for nil. The item shares
// its memory.
func DecodeItem(value []byte) (item.Item, error) {
	if value == nil {
		return nil, nil
	}
	if len(value) < 2 || value[0] != formatItem {
		return nil, fmt.Errorf("a stored item begins with %x: %w", value[:min(4, len(value))], store.ErrCorrupt)
	}
	return item.Item(value[1:]), nil
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
