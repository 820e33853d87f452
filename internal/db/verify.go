package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Report is what a scrub found in one table.
type Report struct {
	Table   string
	Items   int64
	Entries map[string]int64 // of each index
	Faults  int64
	First   []string // the first faults, in words
}

// maxFaultsTold is how many faults of a table are put into words.
const maxFaultsTold = 20

func (r *Report) fault(format string, args ...any) {
	if r.Faults++; len(r.First) < maxFaultsTold {
		r.First = append(r.First, fmt.Sprintf(format, args...))
	}
}

// Verify walks through every table as it is at one moment, and proves that
// each item has its entry in each index and each entry its item, that both are
// well formed and lie where they belong, and that collections have the size
// they are said to have. progress is called now and then.
func (d *DB) Verify(ctx context.Context, progress func(table string, items int64)) ([]Report, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	var reports []Report
	// Tables as they were at that moment, too: an index that became active
	// since would seem to lack entries.
	start, end := keyspace.CatalogSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		t, err := codec.DecodeTable(pair.Value)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", pair.Key[1:], err)
		}
		v := verifier{ctx: ctx, snap: snap, t: t, progress: progress, collections: make(map[string]int64)}
		v.r = Report{Table: t.Name, Entries: make(map[string]int64)}
		if err := v.run(); err != nil {
			return nil, fmt.Errorf("verify table %s: %w", t.Name, err)
		}
		reports = append(reports, v.r)
	}
	return reports, nil
}

// verifier walks through one table.
type verifier struct {
	ctx      context.Context
	snap     store.Snapshot
	t        *schema.Table
	r        Report
	progress func(string, int64)

	collections map[string]int64 // sizes, by the key that they lie at
}

func (v *verifier) run() error {
	if err := v.walk(0, v.item); err != nil {
		return err
	}
	for i := range v.t.Indexes {
		x := &v.t.Indexes[i]
		if x.State == schema.Deleting {
			continue
		}
		v.r.Entries[x.Name] = 0
		if err := v.walk(x.ID, func(key []byte, entry item.Item) error { return v.entry(x, key, entry) }); err != nil {
			return err
		}
	}
	return v.sizes()
}

// walk goes through the items, or the entries of an index.
func (v *verifier) walk(id uint16, look func(key []byte, it item.Item) error) error {
	start, end := keyspace.IndexSpan(v.t.ID, id)
	for pair, err := range v.snap.Scan(v.ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		it, err := decodeSound(pair.Value)
		if err != nil {
			v.r.fault("what lies at %x is not an item: %v", pair.Key, err)
			continue
		}
		if err := look(pair.Key, it); err != nil {
			return err
		}
	}
	return nil
}

// decodeSound is decode for bytes that may be damaged anywhere.
func decodeSound(value []byte) (item.Item, error) {
	it, err := codec.DecodeItem(value)
	if it != nil && err == nil {
		err = item.Check(it)
	}
	return it, err
}

// item looks at one item: whether it lies at its key, and whether it has its
// entry in each index.
func (v *verifier) item(key []byte, it item.Item) error {
	if v.r.Items++; v.r.Items%100_000 == 0 {
		v.progress(v.t.Name, v.r.Items)
	}
	if !v.t.Key.In(it) {
		v.r.fault("the item at %x has not the key of its table", key)
		return nil
	}
	if at := keyspace.Item(nil, v.t, it); !bytes.Equal(at, key) {
		v.r.fault("an item lies at %x, but belongs at %x", key, at)
	}
	if v.t.HasLocal() {
		v.collections[string(keyspace.Collection(v.t, it))] += int64(it.Size())
	}
	for i := range v.t.Indexes {
		x := &v.t.Indexes[i]
		if x.State != "" {
			continue // it is not complete yet, or no more
		}
		want, ok := index.Entry(v.t, x, it)
		if !ok {
			continue
		}
		found, err := v.snap.Get(v.ctx, want.Key)
		if err != nil {
			return err
		}
		switch entry, err := codec.DecodeItem(found[0]); {
		case err != nil || entry == nil:
			v.r.fault("the item %s has no entry in index %s", item.Map(v.t.Key.Of(it)), x.Name)
		case !entry.Equal(want.After):
			v.r.fault("the entry of item %s in index %s differs from it", item.Map(v.t.Key.Of(it)), x.Name)
		}
	}
	return nil
}

// entry looks at one entry of an index: whether the item is there that it
// stands for.
func (v *verifier) entry(x *schema.Index, key []byte, entry item.Item) error {
	v.r.Entries[x.Name]++
	if !v.t.Key.In(entry) {
		v.r.fault("an entry of index %s has not the key of an item", x.Name)
		return nil
	}
	if !x.Global {
		v.collections[string(keyspace.Collection(v.t, entry))] += int64(entry.Size())
	}
	found, err := v.snap.Get(v.ctx, keyspace.Item(nil, v.t, entry))
	if err != nil {
		return err
	}
	it, err := decodeSound(found[0])
	if err != nil || it == nil {
		v.r.fault("an entry of index %s stands for the item %s, which does not exist", x.Name, item.Map(v.t.Key.Of(entry)))
		return nil
	}
	if want, ok := index.Entry(v.t, x, it); !ok || !bytes.Equal(want.Key, key) {
		v.r.fault("index %s has an entry of item %s which it should not have", x.Name, item.Map(v.t.Key.Of(it)))
	}
	return nil
}

// sizes compares the sizes of collections with what they are said to be.
func (v *verifier) sizes() error {
	start, end := keyspace.CollectionSpan(v.t.ID)
	for pair, err := range v.snap.Scan(v.ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		said, is := int64(-1), v.collections[string(pair.Key)]
		if len(pair.Value) == 8 {
			said = int64(binary.BigEndian.Uint64(pair.Value))
		}
		if said != is {
			v.r.fault("the collection at %x is said to have %d bytes, but has %d", pair.Key, said, is)
		}
		delete(v.collections, string(pair.Key))
	}
	for key, size := range v.collections {
		v.r.fault("the collection at %x has %d bytes, but is not known", key, size)
	}
	return nil
}
