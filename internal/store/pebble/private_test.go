package pebble

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// The files of a folder that others can read are private, also those of an engine that
// left them open to all. The control is a file in the folder with the usual mode, which the
// check finds until the engine has opened the folder. A file that is not of an engine keeps
// its mode.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const other = "notes.txt"
	readable := func() (names []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && path != dir && d.Name() != other && info.Mode().Perm()&0o077 != 0 {
				names = append(names, info.Mode().String()+" "+d.Name())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for round := range 2 {
		e := mustOpen(t, Options{Dir: dir})
		for i := range 10 {
			err := e.Update(t.Context(), nil, func(tx store.Tx) error {
				tx.Set([]byte{1, byte(i)}, make([]byte, 1000))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if names := readable(); names != nil {
			t.Errorf("round %d: others can read %v", round, names)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if names := readable(); names != nil {
			t.Errorf("round %d: after Close others can read %v", round, names)
		}
		if round == 1 {
			break
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) < 3 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			if err := os.Chmod(f, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if len(readable()) != len(files) {
			t.Fatal("the control is not found")
		}
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, other)); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("another file has %v, %v", info.Mode(), err)
	}
}
