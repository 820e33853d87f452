package standby

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// writeDir makes a folder with one key, and with a state unless it is empty.
func writeDir(t *testing.T, dir, standby string) {
	t.Helper()
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if standby == "" {
		err = e.Update(t.Context(), nil, func(tx store.Tx) error {
			tx.Set([]byte("a"), []byte("b"))
			return nil
		})
	} else {
		err = e.Apply(t.Context(), nil, 7, (&state{Format: format, Standby: standby}).encode())
	}
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
}

// Whatever a crash leaves of the folders, the standby continues with a complete copy, or
// makes a new one.
func TestFoldersAfterACrash(t *testing.T) {
	for _, c := range []struct {
		name string
		dirs map[string]string // the standby's id by the suffix of the folder
		want string            // empty: no copy
	}{
		{"nothing", nil, ""},
		{"a part of the first copy", map[string]string{partSuffix: ""}, ""},
		{"the first copy before it is renamed", map[string]string{partSuffix: "new"}, "new"},
		{"a part of a new copy", map[string]string{"": "old", partSuffix: ""}, "old"},
		{"a new copy before the old one is renamed", map[string]string{"": "old", partSuffix: "new"}, "old"},
		{"a new copy before it is renamed", map[string]string{oldSuffix: "old", partSuffix: "new"}, "new"},
		{"a new copy before the old one is removed", map[string]string{"": "new", oldSuffix: "old"}, "new"},
		{"an old copy that was renamed, and a part of a new one", map[string]string{oldSuffix: "old", partSuffix: ""}, "old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			for suffix, standby := range c.dirs {
				writeDir(t, dir+suffix, standby)
			}
			e, s, err := openDir(pebble.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if s != nil {
				got = s.Standby
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			if got != c.want {
				t.Errorf("it opens the data of %q, want %q", got, c.want)
			}
		})
	}
}

// Data that is not a standby's is not replaced.
func TestOtherDataIsKept(t *testing.T) {
	dir := t.TempDir()
	writeDir(t, dir, "")
	if _, _, err := openDir(pebble.Options{Dir: dir}); !errors.Is(err, errNotStandby) {
		t.Errorf("openDir: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "LOCK")); err != nil {
		t.Error(err)
	}
}

// A copy does not replace a folder that another process has created or put in the place of the
// standby's.
func TestOtherFolderIsKept(t *testing.T) {
	for _, hadCopy := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		if hadCopy {
			writeDir(t, dir, "id")
		}
		server := newScripted()
		f := openFollower(t, dir, server)
		<-server.copied
		if hadCopy {
			if err := os.Rename(dir, dir+".moved"); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, "a file of another process")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		close(server.send)
		for !strings.Contains(f.Status().Error, "another process") {
			time.Sleep(time.Millisecond)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("had a copy %v: %v", hadCopy, err)
		}
	}
}

// A data folder that is named by a symbolic link is replaced where it is, and the link stays.
func TestLinkedFolder(t *testing.T) {
	for _, hadCopy := range []bool{false, true} {
		base := t.TempDir()
		dir, link := filepath.Join(base, "disk", "data"), filepath.Join(base, "link")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(dir, link)); err != nil {
			t.Fatal(err)
		}
		if hadCopy {
			writeDir(t, dir, "id")
		}
		server := newScripted()
		f := openFollower(t, link, server)
		<-server.copied
		close(server.send)
		for f.Status().Position != 10 {
			time.Sleep(time.Millisecond)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if to, err := os.Readlink(link); err != nil || to != dir {
			t.Errorf("had a copy %v: the link names %q, %v", hadCopy, to, err)
		}
		if ok, err := hasCopy(pebble.Options{Dir: dir}); err != nil || !ok {
			t.Errorf("had a copy %v: the folder has a copy: %v, %v", hadCopy, ok, err)
		}
	}
}
