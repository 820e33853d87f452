// Package verify checks that what a database has stored is consistent.
package verify

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
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
)

// Report is what was found in one table.
type Report struct {
	Table   string
	Items   int64
	Entries map[string]int64 // by index
	Faults  int64
	First   []string // descriptions of the first faults
}

// MaxDescribed bounds how many faults of a table are described.
const MaxDescribed = 20

func (r *Report) fault(format string, args ...any) {
	if r.Faults++; len(r.First) < MaxDescribed {
		r.First = append(r.First, fmt.Sprintf(format, args...))
	}
}

// progressItems is the number of items between two calls of progress.
const progressItems = 100_000

// Tables scans every table as a snapshot shows it, and checks that each item has
// its entry in each index and each entry its item, that both are well formed and
// stored under the right key, and that the recorded sizes of collections are
// right. It calls progress at intervals.
func Tables(ctx context.Context, snap store.Snapshot, progress func(table string, items int64)) ([]Report, error) {
	// The tables as they were at that moment, too: an index that has become
	// active since would seem to lack entries.
	tables, err := history.At(snap).Tables(ctx)
	if err != nil {
		return nil, err
	}
	var reports []Report
	for _, t := range tables {
		v := verifier{ctx: ctx, snap: snap, t: t, progress: progress, collections: make(map[string]int64)}
		v.r = Report{Table: t.Name, Entries: make(map[string]int64)}
		if err := v.run(); err != nil {
			return nil, fmt.Errorf("verify table %s: %w", t.Name, err)
		}
		reports = append(reports, v.r)
	}
	return reports, nil
}

// verifier checks one table.
type verifier struct {
	ctx      context.Context
	snap     store.Snapshot
	t        *schema.Table
	r        Report
	progress func(string, int64)

	collections map[string]int64 // computed sizes, by the key of the record
}

func (v *verifier) run() error {
	if err := v.scan(0, v.item); err != nil {
		return err
	}
	for i := range v.t.Indexes {
		x := &v.t.Indexes[i]
		if x.State == schema.Deleting {
			continue
		}
		v.r.Entries[x.Name] = 0
		if err := v.scan(x.ID, func(key []byte, entry item.Item) error { return v.entry(x, key, entry) }); err != nil {
			return err
		}
	}
	return v.sizes()
}

// scan calls check for each item of the table, or each entry of an index.
func (v *verifier) scan(id uint16, check func(key []byte, it item.Item) error) error {
	start, end := keyspace.IndexSpan(v.t.ID, id)
	for pair, err := range v.snap.Scan(v.ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		it, err := decode(pair.Value)
		if err != nil {
			v.r.fault("the value at %x is not an item: %v", pair.Key, err)
			continue
		}
		if err := check(pair.Key, it); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes an item that may be damaged anywhere.
func decode(value []byte) (item.Item, error) {
	it, err := codec.DecodeItem(value)
	if it != nil && err == nil {
		err = item.Check(it)
	}
	return it, err
}

// item checks one item: that it is stored under its key, and that it has its
// entry in each index.
func (v *verifier) item(key []byte, it item.Item) error {
	if v.r.Items++; v.r.Items%progressItems == 0 {
		v.progress(v.t.Name, v.r.Items)
	}
	if !v.t.Key.In(it) {
		v.r.fault("the item at %x lacks the key attributes of its table", key)
		return nil
	}
	if at := keyspace.Item(nil, v.t, it); !bytes.Equal(at, key) {
		v.r.fault("an item is stored at %x, but belongs at %x", key, at)
	}
	if v.t.HasLocal() {
		v.collections[string(keyspace.Collection(v.t, it))] += int64(it.Size())
	}
	for i := range v.t.Indexes {
		x := &v.t.Indexes[i]
		if x.State != "" {
			continue // it is being built or deleted, and not complete
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
			v.r.fault("the entry of item %s in index %s differs from the item", item.Map(v.t.Key.Of(it)), x.Name)
		}
	}
	return nil
}

// entry checks that the item of an index entry exists and has that entry.
func (v *verifier) entry(x *schema.Index, key []byte, entry item.Item) error {
	v.r.Entries[x.Name]++
	if !v.t.Key.In(entry) {
		v.r.fault("an entry of index %s lacks the key attributes of an item", x.Name)
		return nil
	}
	if !x.Global {
		v.collections[string(keyspace.Collection(v.t, entry))] += int64(entry.Size())
	}
	found, err := v.snap.Get(v.ctx, keyspace.Item(nil, v.t, entry))
	if err != nil {
		return err
	}
	it, err := decode(found[0])
	if err != nil || it == nil {
		v.r.fault("an entry of index %s stands for the item %s, which does not exist", x.Name, item.Map(v.t.Key.Of(entry)))
		return nil
	}
	if want, ok := index.Entry(v.t, x, it); !ok || !bytes.Equal(want.Key, key) {
		v.r.fault("index %s has an entry of item %s which it should not have", x.Name, item.Map(v.t.Key.Of(it)))
	}
	return nil
}

// sizes compares the recorded sizes of collections with the computed ones.
func (v *verifier) sizes() error {
	start, end := keyspace.CollectionSpan(v.t.ID)
	for pair, err := range v.snap.Scan(v.ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		recorded, computed := int64(-1), v.collections[string(pair.Key)]
		if len(pair.Value) == 8 {
			recorded = int64(binary.BigEndian.Uint64(pair.Value))
		}
		if recorded != computed {
			v.r.fault("the collection at %x is recorded with %d bytes, but has %d", pair.Key, recorded, computed)
		}
		delete(v.collections, string(pair.Key))
	}
	for key, size := range v.collections {
		v.r.fault("the collection at %x has %d bytes, but is not recorded", key, size)
	}
	return nil
}
