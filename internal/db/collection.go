package db

import (
	"encoding/binary"
	"fmt"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// maxCollection is the default limit on the size of a collection, 10 GB.
const maxCollection = 10 << 30

// growCollection updates the stored size of an item's collection and returns it.
// A collection is the items of one partition and their entries in local
// indexes. A write that would make it grow beyond the limit is rejected.
func (d *DB) growCollection(tx store.Tx, t *schema.Table, key, before, after item.Item, edits []index.Edit) (int64, error) {
	at := keyspace.Collection(t, key)
	size := int64(0)
	if stored, ok := tx.Get(at); ok {
		if len(stored) != 8 {
			return 0, fmt.Errorf("collection size of %d bytes, not 8: %w", len(stored), store.ErrCorrupt)
		}
		size = int64(binary.BigEndian.Uint64(stored))
	}
	grown := int64(after.Size() - before.Size())
	for _, e := range edits {
		if !e.Index.Global {
			grown += int64(e.After.Size() - e.Before.Size())
		}
	}
	if grown > 0 && size+grown > d.collectionLimit {
		return 0, apierror.CollectionTooLarge()
	}
	size += grown
	switch {
	case grown == 0:
	case size <= 0:
		tx.Delete(at)
	default:
		tx.Set(at, binary.BigEndian.AppendUint64(nil, uint64(size)))
	}
	return size, nil
}
