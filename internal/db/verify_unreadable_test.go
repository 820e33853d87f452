package db

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/store"
)

// unreadableSnapshot is a snapshot in which some values cannot be read: a lookup of one,
// and a scan that reaches it.
type unreadableSnapshot struct {
	store.Snapshot
	lookups, scans map[string]bool
}

func (s *unreadableSnapshot) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if slices.ContainsFunc(keys, func(key []byte) bool { return s.lookups[string(key)] }) {
		return nil, store.ErrCorrupt
	}
	return s.Snapshot.Get(ctx, keys...)
}

func (s *unreadableSnapshot) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		for pair, err := range s.Snapshot.Scan(ctx, r) {
			if s.scans[string(pair.Key)] {
				pair, err = store.Pair{}, store.ErrCorrupt
			}
			if !yield(pair, err) || err != nil {
				return
			}
		}
	}
}

// Verify reports data that it cannot read when it looks up the index entries of a table,
// and goes on with the other entries.
func TestVerifyGoesOnAfterUnreadableData(t *testing.T) {
	for _, c := range []struct {
		name    string
		lookup  func(*DB) []byte
		scan    func(*DB) []byte
		plant   func(*DB, store.Tx)
		reports []verify.Kind
	}{
		{
			name:    "an entry",
			lookup:  func(d *DB) []byte { return entryOf(t, d, "q") },
			plant:   func(d *DB, tx store.Tx) { tx.Delete(entryOf(t, d, "p")); tx.Delete(entryOf(t, d, "r")) },
			reports: []verify.Kind{verify.KindIndex, verify.KindIndex, verify.KindUnreadable},
		},
		{
			name: "an item",
			scan: func(d *DB) []byte { return keyspace.Item(nil, tableOf(t, d, "Orders"), key("p", 1)) },
			plant: func(d *DB, tx store.Tx) {
				tx.Set(entryOf(t, d, "nobody"), codec.EncodeItem(fullItem("nobody", 1)))
			},
			// The item also belongs to a collection, whose size cannot be computed.
			reports: []verify.Kind{verify.KindIndex, verify.KindUnreadable, verify.KindUnreadable},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := inMemory(t)
			create(t, d, orders("Orders"))
			for _, id := range []string{"p", "q", "r"} {
				put(t, d, "Orders", fullItem(id, 1))
			}
			writeRaw(t, d, func(tx store.Tx) { c.plant(d, tx) })
			snap, err := d.engine.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			unreadable := &unreadableSnapshot{Snapshot: snap, lookups: make(map[string]bool), scans: make(map[string]bool)}
			if c.lookup != nil {
				unreadable.lookups[string(c.lookup(d))] = true
			}
			if c.scan != nil {
				unreadable.scans[string(c.scan(d))] = true
			}
			var found []verify.Kind
			walk := verify.New(verify.Options{
				Snapshot: func(context.Context) (store.Snapshot, error) { return unreadable, nil },
				Found: func(f verify.Finding) {
					if !f.Note {
						found = append(found, f.Kind)
					}
				},
			})
			defer walk.Close()
			for done := false; !done; {
				if _, done, err = walk.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(found)
			if !slices.Equal(found, c.reports) {
				t.Errorf("the findings are %v, want %v", found, c.reports)
			}
		})
	}
}

// entryOf returns the key of an item's entry in the index "all".
func entryOf(t *testing.T, d *DB, id string) []byte {
	t.Helper()
	table := tableOf(t, d, "Orders")
	x, _ := table.Index("all")
	return keyspace.Entry(nil, table, x, fullItem(id, 1))
}
