package standby

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// unfinished is the id of a standby for writeDir.
const unfinished = "unfinished"

// writeDir makes a folder with the state of a standby, of an unfinished copy, or with one key and
// no state if the id is empty.
func writeDir(t *testing.T, dir, standby string) {
	t.Helper()
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	switch standby {
	case "":
		err = e.Update(t.Context(), nil, func(tx store.Tx) error {
			tx.Set([]byte("a"), []byte("b"))
			return nil
		})
	case unfinished:
		err = e.Apply(t.Context(), nil, 7, (&state{Format: format, Standby: standby, Loading: true}).encode())
	default:
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
		{"a part of the first copy", map[string]string{partSuffix: unfinished}, ""},
		{"an empty folder of the first copy", map[string]string{partSuffix: ""}, ""},
		{"the first copy before it is renamed", map[string]string{partSuffix: "new"}, "new"},
		{"a part of a new copy", map[string]string{"": "old", partSuffix: unfinished}, "old"},
		{"a new copy before the old one is renamed", map[string]string{"": "old", partSuffix: "new"}, "old"},
		{"a new copy before it is renamed", map[string]string{oldSuffix: "old", partSuffix: "new"}, "new"},
		{"a new copy before the old one is removed", map[string]string{"": "new", oldSuffix: "old"}, "new"},
		{"an old copy that was renamed, and a part of a new one", map[string]string{oldSuffix: "old", partSuffix: unfinished}, "old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			for suffix, standby := range c.dirs {
				writeDir(t, dir+suffix, standby)
				if suffix != "" {
					markOwn(t, dir+suffix)
				}
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
			for _, suffix := range []string{partSuffix, oldSuffix} {
				if _, err := os.Stat(dir + suffix); s != nil && err == nil {
					t.Errorf("the folder with %s is left", suffix)
				}
			}
		})
	}
}

// What an interruption leaves of a copy is neither served nor followed, and a complete one is
// refused for another reason.
func TestUnfinishedCopyIsRefused(t *testing.T) {
	base := t.TempDir()
	left, complete := filepath.Join(base, "left"), filepath.Join(base, "complete")
	var b bytes.Buffer
	w := newMessageWriter(&b)
	w.json(messageBegin, copyBegin{Slot: "slot", Database: "id", Start: 7})
	w.write(messagePairs, []byte("\x01a\x01b"))
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	f := &Follower{o: optionsFor(left, silent{})}
	e, err := f.receive(t.Context(), &messageReader{bufio.NewReader(&b)}, pebble.Options{Dir: left}, "id", time.Now())
	if !errors.Is(err, errIncomplete) || e == nil {
		t.Fatalf("receive: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openDir(pebble.Options{Dir: left}); !errors.Is(err, ErrUnfinished) {
		t.Errorf("openDir of an unfinished copy: %v", err)
	}
	writeDir(t, complete, "id")
	for dir, want := range map[string]error{left: ErrUnfinished, complete: ErrStandby} {
		e, err := pebble.Open(pebble.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckNotStandby(e); !errors.Is(err, want) {
			t.Errorf("%s is served: %v, want %v", dir, err, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
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
