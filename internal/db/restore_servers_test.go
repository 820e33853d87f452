package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// unsureServer reports an unknown outcome for the first armed change of the table
// Restored, although it is committed.
type unsureServer struct {
	*leadtest.Server
	armed atomic.Bool
}

func (s *unsureServer) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	err := s.Server.Update(ctx, keys, fn)
	if err == nil && len(keys) == 1 && bytes.Equal(keys[0], keyspace.Catalog("Restored")) && s.armed.CompareAndSwap(true, false) {
		return fmt.Errorf("no answer: %w", store.ErrUnknownOutcome)
	}
	return err
}

// oneItem opens contents of one item, and counts how often.
func oneItem(opened *atomic.Int32, each func()) func(context.Context, string) (*Contents, error) {
	return func(context.Context, string) (*Contents, error) {
		opened.Add(1)
		each()
		return &Contents{Close: func() error { return nil }, Items: func(context.Context) iter.Seq2[item.Item, error] {
			return func(yield func(item.Item, error) bool) { yield(key("p", 1), nil) }
		}}, nil
	}
}

func restoreFromBackup(t *testing.T, d *DB) {
	t.Helper()
	def := orders("Restored")
	def.Restored = schema.Restored{Backup: "b"}
	if _, err := d.RestoreBackup(t.Context(), def); err != nil {
		t.Fatal(err)
	}
}

// writeThrough writes an item to the table Restored, and returns a function that
// fails the test if the item has been lost.
func writeThrough(t *testing.T, d *DB) (check func()) {
	t.Helper()
	put(t, d, "Restored", key("p", 2))
	return func() {
		t.Helper()
		if got, err := d.GetOne(t.Context(), Get{Table: "Restored", Consistent: true}, key("p", 2)); err != nil || got == nil {
			t.Errorf("the acknowledged item is %v, %v", got, err)
		}
	}
}

// A restore whose end is stored is not repeated: the table is in use by then.
func TestCompletedRestoreIsNotRepeated(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				fleet := leadtest.New(newEngine(t, pebble.InMemory()))
				a, b := &unsureServer{Server: fleet.Join()}, fleet.Join()
				a.Lead(true)
				var opened atomic.Int32
				open := oneItem(&opened, func() { a.armed.Store(opened.Load() == 1) })
				da, db := newDB(t, a, Options{OpenBackup: open}), newDB(t, b, Options{OpenBackup: open})
				restoreFromBackup(t, da)
				time.Sleep(time.Second) // the end is committed, and unknown to all
				other := db
				if crash {
					a.Lead(false)
					a.Close()
					other = newDB(t, fleet.Join(), Options{OpenBackup: open}) // reads the catalog
				} else if err := b.Miss(t.Context()); err != nil {
					t.Fatal(err)
				}
				check := writeThrough(t, other)
				if crash {
					b.Lead(true)
				}
				time.Sleep(time.Minute)
				check()
				if n := opened.Load(); n != 1 {
					t.Errorf("the restore ran %d times, want 1", n)
				}
			})
		})
	}
}

// The same of an import.
func TestCompletedImportIsNotRepeated(t *testing.T) {
	fleet := leadtest.New(newEngine(t, pebble.InMemory()))
	a, b := &unsureServer{Server: fleet.Join()}, fleet.Join()
	a.Lead(true)
	da, db := newDB(t, a, Options{}), newDB(t, b, Options{})
	if _, err := da.BeginImport(t.Context(), orders("Restored"), "id"); err != nil {
		t.Fatal(err)
	}
	items := func(yield func(item.Item, error) bool) { yield(key("p", 1), nil) }
	load := func() error {
		if err := da.Import(t.Context(), "Restored", "id", items, func(error) {}, func(int) {}); err != nil {
			return err
		}
		a.armed.Store(true)
		return da.EndImport(t.Context(), "Restored", "id")
	}
	if err := load(); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("the import ends with %v", err)
	}
	if err := b.Miss(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := writeThrough(t, db)
	if err := load(); !errors.Is(err, ErrFilled) {
		t.Errorf("the second import ends with %v, want %v", err, ErrFilled)
	}
	check()
}

// A short lapse of leadership does not interrupt a restore.
func TestLapseDuringRestore(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := leadtest.New(newEngine(t, pebble.InMemory())).Join()
		s.Lead(true)
		var attempts atomic.Int32
		d := newDB(t, s, Options{OpenBackup: func(context.Context, string) (*Contents, error) {
			attempts.Add(1)
			return &Contents{Close: func() error { return nil }, Items: func(ctx context.Context) iter.Seq2[item.Item, error] {
				return func(yield func(item.Item, error) bool) {
					select {
					case <-time.After(time.Minute):
						yield(key("p", 1), nil)
					case <-ctx.Done():
						yield(nil, ctx.Err())
					}
				}
			}}, nil
		}})
		restoreFromBackup(t, d)
		time.Sleep(10 * time.Second)
		s.Lead(false)
		time.Sleep(20 * time.Second)
		s.Lead(true)
		waitRestored(t, d, "Restored")
		if n := attempts.Load(); n != 1 {
			t.Errorf("the restore began %d times, want 1", n)
		}
	})
}

// A server that may have missed a change of the leader releases the views of
// restores that it has not begun.
func TestOfferedViewsAreReleased(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := leadtest.New(newEngine(t, pebble.InMemory())).Join()
		s.Lead(true)
		d := newDB(t, s, Options{OpenBackup: func(context.Context, string) (*Contents, error) {
			return nil, fmt.Errorf("not now: %w", store.ErrUnavailable)
		}})
		create(t, d, orders("Orders"))
		if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
			t.Fatal(err)
		}
		for i := range restoreWorkers { // they are busy with these
			def := orders(fmt.Sprint("Busy", i))
			def.Restored = schema.Restored{Backup: "b"}
			if _, err := d.RestoreBackup(t.Context(), def); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := d.RestoreToSecond(t.Context(), "Orders", time.Time{}, sameSchema("Restored")); err != nil {
			t.Fatal(err)
		}
		s.Lead(false)
		if err := s.Miss(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		d.restores.mu.Lock()
		offered := len(d.restores.offered)
		d.restores.mu.Unlock()
		if offered != 0 {
			t.Errorf("%d views are still held", offered)
		}
	})
}
