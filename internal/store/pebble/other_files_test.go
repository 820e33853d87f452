package pebble

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder with files that are not of an engine is refused, and nothing is created in it.
// The controls are opened.
func TestFolderWithOtherFilesIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   []string
		folders []string
		allow   bool
		refused string
	}{
		{"an empty folder", nil, nil, false, ""},
		{"a new file system", nil, []string{"lost+found"}, false, ""},
		{"an empty folder of a repository", []string{".gitkeep"}, nil, false, ""},
		{"an engine that was stopped while it created its files", []string{"LOCK"}, nil, false, ""},
		{"a file", []string{"photo.jpg"}, nil, false, "photo.jpg"},
		{"a folder", nil, []string{"lost+found", "photos"}, false, "photos"},
		{"another database", []string{"CURRENT", "LOCK", "MANIFEST-000001"}, nil, false, "CURRENT"},
		{"a file that is allowed", []string{"photo.jpg"}, nil, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range c.folders {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			e, err := Open(Options{Dir: dir, AllowOtherFiles: c.allow})
			if c.refused != "" {
				other, ok := errors.AsType[*OtherFilesError](err)
				left, _ := os.ReadDir(dir)
				if !ok || other.Name != c.refused || len(left) != len(c.files)+len(c.folders) {
					t.Errorf("got %v, and the folder has %v", err, left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			// Once it has data it is opened, whatever else it has.
			if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := mustOpen(t, Options{Dir: dir}).Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
