package blob

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestOpenRejects(t *testing.T) {
	for _, where := range []string{"", "ftp://host/x", "file://host/x", "s3://"} {
		if p, err := Open(t.Context(), where); err == nil {
			t.Errorf("%q is accepted as %v", where, p)
		}
	}
}

// Names that lead out of the place panic.
func TestNamesStayInside(t *testing.T) {
	dir := t.TempDir()
	p := newFolder(filepath.Join(dir, "in"))
	for _, name := range []string{"", "..", "../x", "/a", "a/", "a//b", "a/../b", "a/.hidden", ".hidden", `a\b`, "a\x00"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is accepted", name)
				}
			}()
			p.Create(t.Context(), name)
		}()
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it made %v", entries)
	}
}

// Files in folders are found by the prefix of their names; links that lead
// out of the place are not followed.
func TestFolders(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, where := range map[string]string{"folder": dir, "memory": "mem://"} {
		t.Run(name, func(t *testing.T) {
			p, err := Open(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, name := range []string{"a/b/2", "a/b/1", "a/c", "ab"} {
				w, err := p.Create(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte(name)); err != nil {
					t.Fatal(err)
				}
				if err := w.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			if where == dir {
				if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"a/b/link", "a/out"} {
					if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := p.Open(t.Context(), "a/out/secret"); err == nil {
					t.Error("a link leads out")
				}
				if _, err := p.Create(t.Context(), "a/out/new"); err == nil {
					t.Error("a link leads out for writing")
				}
			}
			for prefix, want := range map[string][]string{
				"": {"a/b/1", "a/b/2", "a/c", "ab"}, "a": {"a/b/1", "a/b/2", "a/c", "ab"}, "a/": {"a/b/1", "a/b/2", "a/c"},
				"a/b/": {"a/b/1", "a/b/2"}, "a/b/2": {"a/b/2"}, "x": nil, "../": nil,
			} {
				found, err := p.Find(t.Context(), prefix)
				var names []string
				for _, f := range found {
					names = append(names, f.Name)
					if f.Bytes != int64(len(f.Name)) {
						t.Errorf("%s has %d bytes", f.Name, f.Bytes)
					}
				}
				if err != nil || !slices.Equal(names, want) {
					t.Errorf("%q finds %v, %v, want %v", prefix, names, err, want)
				}
			}
			if err := p.Remove(t.Context(), "a/b/1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A folder writes no files when its disk is almost full, so that the disk has space
// for the database.
func TestAlmostFullDisk(t *testing.T) {
	free := uint64(1 << 30)
	f := newFolder(t.TempDir())
	f.free = func(string) (uint64, uint64, bool) { return free, 100 << 30, true }
	w, err := f.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4<<20)); err != nil {
		t.Errorf("a write with space: %v", err)
	}
	free = reserveBytes
	_, err = w.Write(make([]byte, 2*uncheckedBytes))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "128 MB left") {
		t.Errorf("a write into the reserve: %v", err)
	}
	w.Cancel()
	if _, err := f.Create(t.Context(), "b"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file on a full disk: %v", err)
	}
}
