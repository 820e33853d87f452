package pebble

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

// Check finds records that are not the engine's, or not well formed.
func TestCheckFindsForeignRecords(t *testing.T) {
	window := commit.Window(1 << 40).Key()
	for name, plant := range map[string]func(*pebble.DB) error{
		"nothing":                func(*pebble.DB) error { return nil },
		"another kind of record": func(db *pebble.DB) error { return db.Set([]byte{store.Reserved, 'x', 1}, []byte{1}, pebble.NoSync) },
		"a short key":            func(db *pebble.DB) error { return db.Set(window[:7], []byte{1}, pebble.NoSync) },
		"another value":          func(db *pebble.DB) error { return db.Set(window, []byte{2}, pebble.NoSync) },
		"no window": func(db *pebble.DB) error {
			lower, upper := commit.WindowKeys()
			return db.DeleteRange(lower, upper, pebble.NoSync)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Open(InMemory())
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := plant(e.db); err != nil {
				t.Fatal(err)
			}
			err = e.Check(t.Context())
			if sound := name == "nothing"; sound != (err == nil) || !sound && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("Check returns %v", err)
			}
		})
	}
}

// Exists does not take an empty folder for data, and creates nothing.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	if ok, err := Exists(filepath.Join(dir, "none")); ok || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Exists of a folder that does not exist = %v, %v", ok, err)
	}
	if ok, err := Exists(dir); ok || err != nil {
		t.Errorf("Exists of an empty folder = %v, %v", ok, err)
	}
	if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
		t.Errorf("Exists has created %v, %v", names, err)
	}
	e, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if ok, err := Exists(dir); !ok || err != nil {
		t.Errorf("Exists of data = %v, %v", ok, err)
	}
}
