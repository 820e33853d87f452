package standby

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// markOwn marks a folder as one that a standby has created.
func markOwn(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, ownName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Folders with the names that a standby uses, which it has not created, are not changed. It reports
// them, and its own copy can be promoted.
func TestForeignFoldersAreKept(t *testing.T) {
	for name, create := range map[string]func(t *testing.T, dir string) error{
		"files": func(_ *testing.T, dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
		},
		"a file": func(_ *testing.T, dir string) error { return os.WriteFile(dir, []byte("x"), 0o600) },
		"data of a server": func(t *testing.T, dir string) error {
			writeDir(t, dir, "")
			return nil
		},
		"a link": func(t *testing.T, dir string) error {
			to := t.TempDir()
			return errors.Join(os.WriteFile(filepath.Join(to, "file"), []byte("x"), 0o600), os.Symlink(to, dir))
		},
	} {
		for _, suffix := range []string{partSuffix, oldSuffix} {
			for _, hadCopy := range []bool{false, true} {
				t.Run(name+" with "+suffix, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "data")
					if hadCopy {
						writeDir(t, dir, "id")
					}
					if err := create(t, dir+suffix); err != nil {
						t.Fatal(err)
					}
					before := namesOf(t, dir+suffix)
					keepForeign(t, dir, dir+suffix, hadCopy)
					if after := namesOf(t, dir+suffix); after != before {
						t.Errorf("had a copy %v: there is %s, and was %s", hadCopy, after, before)
					}
				})
			}
		}
	}
}

func keepForeign(t *testing.T, dir, foreign string, hadCopy bool) {
	server := newScripted()
	close(server.send)
	f := openFollower(t, dir, server)
	for !strings.Contains(f.Status().Error, foreign) {
		if server.copies.Load() > 0 {
			t.Fatal("it has made a copy")
		}
		time.Sleep(time.Millisecond)
	}
	e, err := f.Promote()
	if hadCopy != (err == nil) {
		t.Errorf("had a copy %v: Promote: %v", hadCopy, err)
	}
	if err == nil {
		err = e.Close()
	} else {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// namesOf returns the names and sizes of the files at a path.
func namesOf(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		err = filepath.WalkDir(target, func(name string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			content, _ := os.ReadFile(name) // none of a folder
			all.WriteString(name + ": " + string(content) + "\n")
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The folders of a standby are marked as its own from the first copy on, also those of which the
// mark was lost, until it is promoted.
func TestOwnFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	server := newScripted()
	close(server.send)
	f := openFollower(t, dir, server)
	for f.Status().Position != 10 {
		time.Sleep(time.Millisecond)
	}
	mark := filepath.Join(dir, ownName)
	if err := errors.Join(os.Remove(mark), f.Close()); err != nil {
		t.Fatal(err)
	}
	f = openFollower(t, dir, silent{})
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	e, err := f.Promote()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("after the promotion: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(dir, dir+partSuffix); err != nil {
		t.Fatal(err)
	}
	if err := removeOwn(dir + partSuffix); !errors.Is(err, pebble.ErrNotMarked) {
		t.Errorf("removeOwn of promoted data: %v", err)
	}
}

// A crash while an unfinished first copy is removed does not keep the standby from starting: the copy
// is made again.
func TestCrashDuringTheRemovalOfACopy(t *testing.T) {
	for _, loading := range []bool{true, false} {
		for last := 1; ; last++ {
			dir := filepath.Join(t.TempDir(), "data")
			part := dir + partSuffix
			writeCopy(t, part, loading)
			if !removeSome(t, part, last) {
				break
			}
			f, err := Open(t.Context(), optionsFor(dir, silent{}))
			if err != nil {
				t.Fatalf("loading %v: after the removal of %d files the standby does not start: %v", loading, last, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// writeCopy creates a folder with a copy, whole or not.
func writeCopy(t *testing.T, dir string, loading bool) {
	t.Helper()
	if err := createOwn(dir); err != nil {
		t.Fatal(err)
	}
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Load(t.Context(), func(yield func(store.Pair, error) bool) {
		for i := range 1000 {
			if !yield(store.Pair{Key: fmt.Appendf(nil, "k%04d", i), Value: make([]byte, 1000)}, nil) {
				return
			}
		}
	}, 7, func(whole bool) []byte {
		return (&state{Format: format, Standby: "id", Loading: !whole || loading}).encode()
	})
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
}

// removeSome does what removeOwn has done when it is killed: the folder is marked as being removed,
// and some files are gone. It reports false if there are not as many.
func removeSome(t *testing.T, dir string, some int) bool {
	t.Helper()
	if err := pebble.Mark(dir, "stator.removing"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if f.Name() == "stator.removing" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
		if some--; some == 0 {
			return true
		}
	}
	return false
}

// A standby whose folder was removed does not follow, and is not promoted: a restart would not find
// its data. It continues when the folder is moved back.
func TestPromotionWithoutAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	server := newScripted()
	close(server.send)
	o := optionsFor(dir, server)
	o.Engine.DiskCheck = time.Millisecond
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	awaitState(t, f, Following)
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Promote(); !errors.Is(err, store.ErrRemoved) {
		t.Errorf("Promote without a folder: %v", err)
	}
	awaitState(t, f, Disconnected)
	if s := f.Status(); !strings.Contains(s.Error, store.ErrRemoved.Error()) {
		t.Errorf("without a folder the status is %+v", s)
	}
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	awaitState(t, f, Following)
	e, err := f.Promote()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// awaitState waits until a standby has a state.
func awaitState(t *testing.T, f *Follower, state string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Second); f.Status().State != state; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the status is %+v, want the state %s", f.Status(), state)
		}
	}
}
