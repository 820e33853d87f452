package db

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// announcedEngine finds changes of items that Options.Writing was not called for.
type announcedEngine struct {
	store.Engine
	t *testing.T

	mu        sync.Mutex
	announced map[string]int
	changed   int
}

// writing is an Options.Writing.
func (e *announcedEngine) writing(keys [][]byte) func() {
	e.count(keys, 1)
	return func() { e.count(keys, -1) }
}

func (e *announcedEngine) count(keys [][]byte, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range keys {
		e.announced[string(k)] += n
	}
}

func (e *announcedEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	return e.Engine.Update(ctx, keys, func(tx store.Tx) error { return fn(announcedTx{tx, e}) })
}

type announcedTx struct {
	store.Tx
	e *announcedEngine
}

func (tx announcedTx) Set(key, value []byte) {
	tx.e.check(key)
	tx.Tx.Set(key, value)
}

func (tx announcedTx) Delete(key []byte) {
	tx.e.check(key)
	tx.Tx.Delete(key)
}

func (e *announcedEngine) check(key []byte) {
	if key[0] != keyspace.KindItem || keyspace.IndexOf(key) != 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed++
	if e.announced[string(bytes.Clone(key))] == 0 {
		e.t.Errorf("the item %q is changed without Options.Writing", key)
	}
}

// Options.Writing is called for every change of an item, whoever makes it, and what it
// returns after each.
func TestWritingIsCalledForAllChanges(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := &announcedEngine{Engine: newEngine(t, pebble.InMemory()), t: t, announced: make(map[string]int)}
		d := newDB(t, e, Options{Writing: e.writing})
		create(t, d, orders("Orders"))
		step := func(name string, do func() error) {
			t.Helper()
			before := e.changed
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.changed == before {
				t.Errorf("%s: nothing was changed", name)
			}
			for k, n := range e.announced {
				if n != 0 {
					t.Errorf("%s: a write of %q has not ended", name, k)
				}
			}
		}
		replace := func(it item.Item) Write { return Write{Table: "Orders", Key: it, Effect: Replace(it)} }
		step("write", func() error { _, err := d.Write(t.Context(), replace(key("a", 1))); return err })
		step("batch", func() error {
			_, err := d.WriteBatch(t.Context(), replace(key("b", 1)), Write{Table: "Orders", Key: key("a", 1), Effect: Remove})
			return err
		})
		step("transaction", func() error {
			_, err := d.Transact(t.Context(), nil, replace(key("c", 1)), replace(key("d", 1)))
			return err
		})
		if _, err := d.Write(t.Context(), Write{Table: "Orders", Key: key("e", 1), If: func(item.Item) bool { return false }, Effect: Remove}); err == nil {
			t.Error("a write was not rejected")
		}
		step("expiry", func() error {
			if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
				return err
			}
			put(t, d, "Orders", expiringItem("expires", time.Now().Unix()+10))
			time.Sleep(15 * time.Second)
			if hasItem(t, d, "expires") {
				t.Error("the item has not expired")
			}
			return nil
		})
		step("import", func() error {
			if _, err := d.BeginImport(t.Context(), orders("Imported"), "job"); err != nil {
				return err
			}
			items := func(yield func(item.Item, error) bool) { _ = yield(key("x", 1), nil) && yield(key("x", 2), nil) }
			if err := d.Import(t.Context(), "Imported", "job", items, func(error) {}, func(int) {}); err != nil {
				return err
			}
			return d.EndImport(t.Context(), "Imported", "job")
		})
		step("restore", func() error {
			if _, err := d.SetRecovery(t.Context(), "Orders", 35); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			if _, err := d.RestoreToSecond(t.Context(), "Orders", time.Time{}, sameSchema("Restored")); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return nil
		})
	})
}
