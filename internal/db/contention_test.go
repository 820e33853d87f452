package db

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// heldFor is longer than two updates wait for a key, one after the other.
const heldFor = 12 * time.Second

// holdKey holds the latch of a key for heldFor.
func holdKey(t *testing.T, e store.Engine, key []byte) {
	t.Helper()
	held := make(chan struct{})
	go func() {
		if err := e.Update(t.Context(), [][]byte{key}, func(store.Tx) error {
			close(held)
			time.Sleep(heldFor)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}()
	<-held
}

// waitUntil waits up to five virtual minutes for a condition.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 300 {
		if holds() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("after five minutes %s does not hold", what)
}

// storedTable returns the table Orders, in any state.
func storedTable(t *testing.T, d *DB) *schema.Table {
	t.Helper()
	found, err := d.Describe("Orders")
	if err != nil {
		t.Fatal(err)
	}
	return found.Table
}

// sourceOfOne returns one item, and counts how often it is read.
func sourceOfOne(reads *int) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		*reads++
		yield(fullItem("p", 1), nil)
	}
}

// An import waits until others release its keys, and does not begin again. A request
// is rejected after five seconds.
func TestImportOutlastsContention(t *testing.T) {
	for name, inBackground := range map[string]bool{"in the background": true, "for a request": false} {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				e := newEngine(t, pebble.InMemory())
				d := newDB(t, e, Options{})
				if _, err := d.BeginImport(t.Context(), orders("Orders"), "job"); err != nil {
					t.Fatal(err)
				}
				holdKey(t, e, keyspace.Collection(storedTable(t, d), key("p", 1)))
				reads, began := 0, time.Now()
				load := func(ctx context.Context) error {
					return d.Import(ctx, "Orders", "job", sourceOfOne(&reads), func(err error) { t.Error(err) }, func(int) {})
				}
				var err error
				if inBackground {
					err = stepOf(t.Context(), load)
				} else {
					err = load(t.Context())
				}
				took := time.Since(began)
				if inBackground && (err != nil || took < heldFor || reads != 1) {
					t.Errorf("the import returned %v after %v and read its items %d times, want success after %v", err, took, reads, heldFor)
				}
				if !inBackground && (!errors.Is(err, store.ErrConflict) || took != 5*time.Second) {
					t.Errorf("the import returned %v after %v, want %v after 5s", err, took, store.ErrConflict)
				}
				time.Sleep(heldFor)
			})
		})
	}
}

// stepOf runs a function once as a step of background work.
func stepOf(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var result error
	lead.Run(ctx, nil, nil, lead.Loop{Step: func(ctx context.Context) (time.Duration, error) {
		result = step(ctx)
		cancel()
		return lead.Idle, nil
	}})
	return result
}

// A restore waits until others release its keys, and does not begin again.
func TestRestoreOutlastsContention(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		reads := 0
		d := newDB(t, e, Options{OpenBackup: func(context.Context, string) (*Contents, error) {
			return &Contents{Items: func(context.Context) iter.Seq2[item.Item, error] { return sourceOfOne(&reads) }, Close: func() error { return nil }}, nil
		}})
		def := orders("Orders")
		def.ID = 1 // the id of the first table
		holdKey(t, e, keyspace.Collection(&def, key("p", 1)))
		def.Restored = schema.Restored{Table: "Source", Backup: "backup", At: time.Now()}
		if _, err := d.RestoreBackup(t.Context(), def); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		waitUntil(t, "that the table is restored", func() bool { return !storedTable(t, d).Restored.Running })
		if took := time.Since(began); storedTable(t, d).ID != 1 || took < heldFor || reads != 1 {
			t.Errorf("after %v the items were read %d times, want once after %v", took, reads, heldFor)
		}
		checkSound(t, d)
	})
}

// An index is built and items expire although others hold an item for a while.
func TestBuildAndExpiryOutlastContention(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		d := newDB(t, e, Options{})
		def := orders("Orders")
		def.Indexes = def.Indexes[:1]
		create(t, d, def)
		put(t, d, "Orders", fullItem("p", 1))
		put(t, d, "Orders", expiringItem("q", time.Now().Unix()+1))
		held := func(id string) []byte { return keyspace.Item(nil, tableOf(t, d, "Orders"), key(id, 1)) }
		holdKey(t, e, held("p"))
		holdKey(t, e, held("q"))
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.UpdateTable(t.Context(), "Orders", func(now *schema.Table) error {
			late := orders("").Indexes[1]
			late.State = schema.Creating
			now.Indexes, now.State = append(now.Indexes, late), schema.Active
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "that the index is built", func() bool {
			x, _ := tableOf(t, d, "Orders").Index("all")
			return x.State == ""
		})
		waitUntil(t, "that the item has expired", func() bool { return !hasItem(t, d, "q") })
		checkSound(t, d)
	})
}

// A table can be changed and written while the backfill of its index waits for an item.
func TestTableIsChangedWhileABackfillWaits(t *testing.T) {
	e := newEngine(t, pebble.InMemory())
	d := newDB(t, e, Options{})
	def := orders("Orders")
	def.Indexes = def.Indexes[:1]
	create(t, d, def)
	put(t, d, "Orders", fullItem("p", 1))
	free := make(chan struct{})
	defer close(free)
	held, item := make(chan struct{}), keyspace.Item(nil, tableOf(t, d, "Orders"), key("p", 1))
	go func() {
		_ = e.Update(context.Background(), [][]byte{item}, func(store.Tx) error {
			close(held)
			<-free
			return nil
		})
	}()
	<-held
	addIndex := func(now *schema.Table) error {
		late := orders("").Indexes[1]
		late.State = schema.Creating
		now.Indexes, now.State = append(now.Indexes, late), schema.Active
		return nil
	}
	if _, err := d.UpdateTable(t.Context(), "Orders", addIndex); err != nil {
		t.Fatal(err)
	}
	for x, _ := tableOf(t, d, "Orders").Index("all"); !x.Backfilling; x, _ = tableOf(t, d, "Orders").Index("all") {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // the backfill waits by now: if not, the test finds less
	changed := make(chan error, 1)
	go func() { changed <- d.SetTimeToLive(t.Context(), "Orders", "ttl") }()
	select {
	case err := <-changed:
		if err != nil {
			t.Fatal(err)
		}
		put(t, d, "Orders", fullItem("q", 1))
	case <-time.After(time.Minute):
		t.Error("the change of the table waits for the backfill")
	}
}

// An import whose counts are being updated by others is rejected after five seconds, while the saves of
// item counts wait for it.
func TestImportWaitsForItsCounts(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		d := newDB(t, e, Options{})
		if _, err := d.BeginImport(t.Context(), orders("Orders"), "job"); err != nil {
			t.Fatal(err)
		}
		holdKey(t, e, keyspace.ItemCount(storedTable(t, d).ID))
		began, reads := time.Now(), 0
		err := d.Import(t.Context(), "Orders", "job", sourceOfOne(&reads), func(err error) { t.Error(err) }, func(int) {})
		if took := time.Since(began); !errors.Is(err, store.ErrConflict) || took != 5*time.Second {
			t.Errorf("the import returned %v after %v, want %v after 5s", err, took, store.ErrConflict)
		}
		time.Sleep(heldFor)
	})
}
