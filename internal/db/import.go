package db

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// An import of files creates its table in the catalog first, with the status
// CREATING and the id of the import. Package transfer reads the files, calls
// Import, and then EndImport or DropImport. Until then the table cannot be used.

// BeginImport creates a table for an import to fill.
func (d *DB) BeginImport(ctx context.Context, def schema.Table, id string) (Description, error) {
	def.Restored = schema.Restored{Import: id, Running: true}
	return d.CreateTable(ctx, def)
}

// importing returns the table that an import fills.
func (d *DB) importing(name, id string) (*table, error) {
	t, ok := d.find(name)
	if !ok || t.Restored.Import != id {
		return nil, apierror.NoTableNamed(name)
	}
	if !t.Restored.Running {
		return nil, fmt.Errorf("import into table %s: %w", name, ErrFilled)
	}
	return t, nil
}

// Import clears a table that BeginImport created, and writes items to it. Of two
// items with one key the later wins. It calls reject with the fault of each item
// that does not fit, before it reads the next, and done after each update with
// the number of its items.
func (d *DB) Import(ctx context.Context, name, id string, items iter.Seq2[item.Item, error], reject func(error), done func(items int)) error {
	t, err := d.importing(name, id)
	if err != nil {
		return err
	}
	if t, err = d.beginFill(ctx, t); err != nil {
		return err
	}
	// Each writer has its own keys, so that of two items with one key the later
	// is written later.
	w := d.startWriters(ctx, t, bulkWriters, done)
	return w.finish(distribute(t.Table, w, items, reject))
}

// importLane collects the items of one writer of an import.
type importLane struct {
	*batch
	at   map[string]int // the position of each key in the batch
	seen *bloomFilter   // the keys of all items of the lane
}

func newImportLane() *importLane {
	return &importLane{batch: newBatch(), at: make(map[string]int), seen: newBloomFilter()}
}

// add adds the write of an item. Of two writes of one item within a batch only
// the later remains, because an update may name an item only once.
func (l *importLane) add(key []byte, w Write) {
	if i, twice := l.at[string(key)]; twice {
		l.writes[i] = w
		return
	}
	l.at[string(key)] = len(l.writes)
	l.batch.add(w)
	l.mayExist = append(l.mayExist, l.seen.add(key))
}

// next returns the batch and begins another.
func (l *importLane) next() *batch {
	b := l.batch
	l.batch = newBatch()
	clear(l.at)
	return b
}

// bloomFilter is a set of keys in constant memory. It has false positives, more
// of them the more keys it contains, and no false negatives.
type bloomFilter struct {
	seed maphash.Seed
	bits []uint64
}

// bloomBits is the size of a filter: enough for about ten million keys.
const bloomBits = 1 << 26

func newBloomFilter() *bloomFilter {
	return &bloomFilter{maphash.MakeSeed(), make([]uint64, bloomBits/64)}
}

// add adds a key, and reports whether it may have been added before. The four
// bits of a key are in one word, so that it costs one memory access.
func (f *bloomFilter) add(key []byte) (maybe bool) {
	h := maphash.Bytes(f.seed, key)
	word := &f.bits[h%(bloomBits/64)]
	mask := uint64(1)<<(h>>40&63) | 1<<(h>>46&63) | 1<<(h>>52&63) | 1<<(h>>58&63)
	maybe = *word&mask == mask
	*word |= mask
	return maybe
}

// distribute sends the items that fit a table to the writers, and passes the
// faults of the others to reject.
func distribute(t *schema.Table, writers *batchWriters, items iter.Seq2[item.Item, error], reject func(error)) error {
	lanes := make([]*importLane, len(writers.queues))
	for i := range lanes {
		lanes[i] = newImportLane()
	}
	var key []byte
	for it, err := range items {
		if err != nil {
			return err
		}
		w := Write{Table: t.Name, Fit: (*schema.Table).CheckItem}
		err := t.CheckItem(it)
		if err == nil {
			err = w.checkAfter(t, nil, it, it.Size())
		}
		if err != nil {
			reject(err)
			continue
		}
		key = keyspace.Item(key[:0], t, it)
		i := keyspace.Lane(key, len(lanes))
		l := lanes[i]
		it = l.copy(it)
		w.Key, w.Effect = it, Replace(it)
		l.add(key, w)
		if l.full() {
			if err := writers.send(i, l.next()); err != nil {
				return err
			}
		}
	}
	for i, l := range lanes {
		if err := writers.send(i, l.next()); err != nil {
			return err
		}
	}
	return nil
}

// EndImport makes a table that Import has filled usable.
func (d *DB) EndImport(ctx context.Context, name, id string) error {
	t, err := d.importing(name, id)
	if err != nil {
		return err
	}
	return d.endFill(ctx, t)
}

// DropImport removes the table of an import that failed. It does nothing if the
// table no longer exists, or if the import is complete.
func (d *DB) DropImport(ctx context.Context, name, id string) error {
	t, ok := d.find(name)
	if !ok || t.Restored.Import != id || !t.Restored.Running {
		return nil
	}
	return d.abandon(ctx, t)
}
