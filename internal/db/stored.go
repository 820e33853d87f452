package db

import (
	"fmt"
	"hash/fnv"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
)

// decodeItem returns the item of a stored form, or of an entry, and nil for nil. Its error
// says where the form is stored, without the values of the key.
func decodeItem(t *schema.Table, key, value []byte) (item.Item, error) {
	it, err := codec.DecodeItem(value)
	if err != nil {
		hash := fnv.New64a()
		_, _ = hash.Write(key)
		return nil, fmt.Errorf("load item of table %s, key hash %016x: %w", t.Name, hash.Sum64(), err)
	}
	return it, nil
}
