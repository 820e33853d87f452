package blob

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Servers that share a folder may write one name concurrently: each writes
// its own file, and the last to commit wins, whole.
func TestConcurrentWritersOfOneName(t *testing.T) {
	f := newFolder(t.TempDir())
	var writers []Writer
	for _, text := range []string{"first", "second, and longer"} {
		w, err := f.Create(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	slices.Reverse(writers)
	for _, w := range writers {
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(f.dir, "a")); err != nil || string(got) != "first" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// An incomplete file that a crash left is removed after a day, not before.
func TestStalePartsAreRemoved(t *testing.T) {
	f := newFolder(t.TempDir())
	plant := func(name string, age time.Duration) {
		path := filepath.Join(f.dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	plant(".old.0123.part", stale+time.Hour)
	plant(".new.0123.part", time.Hour)
	plant(".other", stale+time.Hour)
	if names, err := f.Names(t.Context()); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".new.0123.part" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// An incomplete file that is being written is kept, however old it seems to be after a
// step of the clock, also if another server lists the folder. The control is a file whose
// writer has ended.
func TestPartsInUseAreKept(t *testing.T) {
	f := newFolder(t.TempDir())
	w, err := f.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "text"); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(f.dir, w.(*fileWriter).part)
	old := time.Now().Add(-2 * stale)
	if err := os.Chtimes(part, time.Time{}, old); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []*folder{f, newFolder(f.dir)} {
		if names, err := folder.Names(t.Context()); err != nil || len(names) != 0 {
			t.Fatal(names, err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(f.dir, "a")); err != nil || string(got) != "text" {
		t.Errorf("the file is %q, %v", got, err)
	}

	w, err = f.Create(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	crashed := w.(*fileWriter)
	if err := errors.Join(crashed.file.Close(), crashed.root.Close()); err != nil {
		t.Fatal(err)
	}
	part = filepath.Join(f.dir, crashed.part)
	if err := os.Chtimes(part, time.Time{}, old); err != nil {
		t.Fatal(err)
	}
	if names, err := f.Names(t.Context()); err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part of a writer that has ended is kept: %v", err)
	}
}
