package db

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/store"
)

// longHistory returns a database with a table of which one item was changed n times, and
// some others, with the history of all.
func longHistory(t *testing.T, n int) *DB {
	t.Helper()
	d := inMemory(t)
	create(t, d, ordersWithoutIndexes("Plain"))
	if _, err := d.SetRecovery(t.Context(), "Plain", 7); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		put(t, d, "Plain", key("hot", 1).With("c", num(i)))
	}
	for i := range 20 {
		put(t, d, "Plain", key(fmt.Sprint("cold", i), 1))
	}
	return d
}

// An online walk that finds changes that do not fit reads no more in a step than in any
// other, however long the history is.
func TestStepsOfVerifyAreBounded(t *testing.T) {
	const changes, partKeys = 1500, 50
	for _, c := range []struct {
		name  string
		plant func(d *DB, tx store.Tx)
	}{
		{"an item was altered", func(d *DB, tx store.Tx) {
			it := key("hot", 1).With("c", item.String("altered"))
			tx.Set(keyspace.Item(nil, tableOf(t, d, "Plain"), it), codec.EncodeItem(it))
		}},
		{"items are missing", func(d *DB, tx store.Tx) {
			for i := range 20 {
				tx.Delete(keyspace.Item(nil, tableOf(t, d, "Plain"), key(fmt.Sprint("cold", i), 1)))
			}
		}},
		{"a change is missing", func(d *DB, tx store.Tx) { tx.Delete(changeOf(t, d, "hot", changes/2)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := longHistory(t, changes)
			writeRaw(t, d, func(tx store.Tx) { c.plant(d, tx) })
			found := 0
			walk := verify.New(verify.Options{
				Snapshot: d.engine.Snapshot, Online: true, PartKeys: partKeys,
				Found: func(f verify.Finding) {
					if f.Kind == verify.KindChange {
						found++
					}
				},
			})
			defer walk.Close()
			for done := false; !done; {
				keys, over, err := walk.Step(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if done = over; keys > partKeys {
					t.Errorf("a step reads %d keys, want %d at most", keys, partKeys)
				}
			}
			if want := map[string]int{"items are missing": 20}[c.name]; found != max(want, 1) {
				t.Errorf("%d changes are found that do not fit, want %d", found, max(want, 1))
			}
		})
	}
}

// changeOf returns the key of the nth change of an item in the table Plain.
func changeOf(t *testing.T, d *DB, id string, n int) []byte {
	t.Helper()
	table := tableOf(t, d, "Plain")
	slot := keyspace.Slot(keyspace.Item(nil, table, key(id, 1)))
	start, end := keyspace.ChangeSpan(table.ID, slot, 0, 1<<63)
	snap, err := d.engine.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for pair, err := range snap.Scan(t.Context(), store.Range{Start: start, End: end}) {
		if err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 {
			return bytes.Clone(pair.Key)
		}
	}
	t.Fatal("there are not so many changes")
	return nil
}

// Items that change between the same two values while they are verified have no findings,
// and a walk ends although changes are added faster than it reads them.
func TestVerifyOfAlternatingItems(t *testing.T) {
	const partKeys, writes = 5, 8 // each of a step
	d := longHistory(t, 100)
	walk := verify.New(verify.Options{
		Snapshot: d.engine.Snapshot, Online: true, PartKeys: partKeys,
		Found: func(f verify.Finding) { t.Errorf("%+v", f) },
	})
	defer walk.Close()
	written := 0
	for done := false; !done; {
		var err error
		if _, done, err = walk.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range writes {
			put(t, d, "Plain", key(fmt.Sprint("alternating", written%5), 1).With("c", num(written/5%2)))
			written++
		}
	}
}

// Changes that are trimmed while they are verified are not missing.
func TestVerifyOfTrimmedChanges(t *testing.T) {
	const partKeys, trimmed = 5, 6
	d := longHistory(t, 100)
	written := 0
	write := func(n int) {
		for range n {
			put(t, d, "Plain", key(fmt.Sprint("changing", written%5), 1).With("c", num(written/5%3)))
			written++
		}
	}
	write(400)
	walk := verify.New(verify.Options{
		Snapshot: d.engine.Snapshot, Online: true, PartKeys: partKeys,
		Found: func(f verify.Finding) { t.Errorf("%+v", f) },
	})
	defer walk.Close()
	for step, done := 0, false; !done; step++ {
		var err error
		if _, done, err = walk.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(12)
		for slot := range keyspace.Slots {
			if step%2 == 0 { // as much as is written, so that the history is as long at the next look
				trimOldest(t, d, slot, trimmed)
			}
		}
	}
}

// trimOldest removes the oldest n changes of a slot in the table Plain, but not the last one.
func trimOldest(t *testing.T, d *DB, slot, n int) {
	t.Helper()
	start, end := keyspace.ChangeSpan(tableOf(t, d, "Plain").ID, slot, 0, 1<<63)
	snap, err := d.engine.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	var keys [][]byte
	for pair, err := range snap.Scan(t.Context(), store.Range{Start: start, End: end}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, bytes.Clone(pair.Key))
	}
	writeRaw(t, d, func(tx store.Tx) {
		for i := range min(n, len(keys)-1) {
			tx.Delete(keys[i])
		}
	})
}
