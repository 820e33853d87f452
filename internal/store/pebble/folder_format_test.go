package pebble

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A folder that a newer version has written to is not opened, and not changed.
func TestNewerFolderIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	e := mustOpen(t, Options{FS: mem, Dir: "d"})
	fill(t, e, 10)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, mem, "*")
	if !slices.Contains(before, "stator.format-2") {
		t.Errorf("the folder has %v", before)
	}
	write(t, mem, "d/stator.format-5", nil)
	_, err := Open(Options{FS: mem, Dir: "d"})
	if newer := (*FormatError)(nil); !errors.As(err, &newer) || newer.Found != 5 {
		t.Errorf("got %v", err)
	}
	if err := mem.Remove("d/stator.format-5"); err != nil {
		t.Fatal(err)
	}
	if after := filesOf(t, mem, "*"); !slices.Equal(after, before) {
		t.Errorf("the folder has %v, and had %v", after, before)
	}
	e = mustOpen(t, Options{FS: mem, Dir: "d"}) // the control
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// The format of a folder is durable when a write is.
func TestFolderFormatSurvivesCrash(t *testing.T) {
	mem := disktest.NewCrashable()
	e := mustOpen(t, Options{FS: mem, Dir: "d"})
	defer e.Close()
	fill(t, e, 1)
	if files := filesOf(t, mem.CrashClone(vfs.CrashCloneCfg{}), "stator.format-*"); len(files) != 1 {
		t.Errorf("the folder has %v", files)
	}
}

// Versions that do not record changes for a standby are kept out of a folder with a slot, in
// which they would leave a gap, and of the data of a standby, which they would serve.
func TestFolderFormatOfAStandby(t *testing.T) {
	for name, use := range map[string]func(*Engine) error{
		"server": func(e *Engine) error {
			snap, _, _, err := e.Attach(t.Context(), "slot")
			if err != nil {
				return err
			}
			return snap.Close()
		},
		"standby": func(e *Engine) error {
			return e.Load(t.Context(), func(func(store.Pair, error) bool) {}, 1, func(bool) []byte { return []byte("state") })
		},
	} {
		mem := disktest.NewCrashable()
		e := mustOpen(t, Options{FS: mem, Dir: "d"})
		fill(t, e, 1)
		formats := func() []string { return filesOf(t, mem.CrashClone(vfs.CrashCloneCfg{}), "stator.format-*") }
		if files := formats(); slices.Contains(files, "stator.format-3") {
			t.Errorf("%s: without a standby the folder has %v", name, files)
		}
		if err := use(e); err != nil {
			t.Fatal(err)
		}
		if files := formats(); !slices.Contains(files, "stator.format-3") {
			t.Errorf("%s: the folder has %v", name, files)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, Options{FS: mem, Dir: "d"})
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A slot in a folder without the format that keeps other versions out is removed: one of them may
// have written without recording changes.
func TestSlotWithoutFolderFormat(t *testing.T) {
	for _, removed := range []bool{false, true} {
		mem := vfs.NewMem()
		var log logtest.Log
		o := Options{FS: mem, Dir: "d", Log: log.Logger()}
		e := mustOpen(t, o)
		snap, start, _, err := e.Attach(t.Context(), "slot")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(snap.Close(), e.Close()); err != nil {
			t.Fatal(err)
		}
		if removed {
			if err := mem.Remove("d/stator.format-3"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // it does not exist later either
			e = mustOpen(t, o)
			_, _, _, err = e.Changes(t.Context(), "slot", start, 1, 0)
			if errors.Is(err, ErrNoSlot) != removed || (e.Attached().Slot == "") != removed {
				t.Errorf("removed %v: the slot is %q: %v", removed, e.Attached().Slot, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(log.String(), "needs a new copy") != removed {
			t.Errorf("removed %v: the log is %s", removed, &log)
		}
	}
}
