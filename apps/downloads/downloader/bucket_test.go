package downloader

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is visible when it is complete, and partial files of a killed process are removed.
func TestBucket(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "files")
	b, err := OpenBucket(t.Context(), "file://"+folder)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	create := func(name, text string) *Object {
		t.Helper()
		o, err := b.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	names := func() (all []string) {
		filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(folder, path)
				all = append(all, rel)
			}
			return nil
		})
		return all
	}
	o := create("day/a", "whole")
	if _, err := b.ReadAll(t.Context(), "day/a"); err == nil {
		t.Error("a file is visible before it is complete")
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	o.Abort() // has no effect after Commit
	create("day/a", "aborted").Abort()
	if text, err := b.ReadAll(t.Context(), "day/a"); err != nil || string(text) != "whole" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if got := names(); len(got) != 1 {
		t.Errorf("in the folder are %v", got)
	}
	create("day/a", "left by a process that was killed")
	if err := create("day/a.b", "another file").Commit(); err != nil {
		t.Fatal(err)
	}
	if got := names(); len(got) != 3 {
		t.Errorf("in the folder are %v", got)
	}
	if err := b.Tidy(t.Context(), "day/a"); err != nil {
		t.Fatal(err)
	}
	if got := names(); len(got) != 2 || got[0] != "day/a" || got[1] != "day/a.b" {
		t.Errorf("in the folder are %v", got)
	}
	if _, err := OpenBucket(t.Context(), "what://x"); err == nil {
		t.Error("what://x is accepted as a bucket")
	}
}
