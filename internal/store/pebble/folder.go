package pebble

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// dataFolder is the data folder as it was when it was opened. If it is removed or replaced
// later, files that are open can still be written, but a restart would not find them.
type dataFolder struct {
	path string
	stat func(path string) (fs.FileInfo, error)
	was  map[string]fs.FileInfo // the folder and its lock file, by path
}

// newFolder returns a folder that is locked. Only the disk identifies its files.
func newFolder(f vfs.FS, dir string) *dataFolder {
	x := &dataFolder{path: dir, stat: func(path string) (fs.FileInfo, error) { return os.Stat(path) }, was: make(map[string]fs.FileInfo)}
	if vfs.Root(f) != vfs.Default {
		return x
	}
	for _, path := range []string{dir, f.PathJoin(dir, "LOCK")} {
		if is, err := x.stat(path); err == nil {
			x.was[path] = is
		}
	}
	return x
}

// present reports whether the folder and its lock file are where they were, and the same.
// It reports true if it cannot find out.
func (f *dataFolder) present() bool {
	for path, was := range f.was {
		is, err := f.stat(path)
		if os.IsNotExist(err) || err == nil && !os.SameFile(was, is) {
			return false
		}
	}
	return true
}

// report logs that the folder is missing, or present again.
func (f *dataFolder) report(log *slog.Logger, present bool) {
	if present {
		log.Info("the data folder is back: writes are accepted", "folder", f.path)
		return
	}
	log.Error("the data folder was removed or replaced: writes are rejected; move the folder back, or stop the server and restore a backup", "folder", f.path)
}

func (f *dataFolder) err() error {
	return fmt.Errorf("%s: %w", f.path, store.ErrRemoved)
}

// folderFS is a file system that changes no names in a folder that was removed or replaced:
// files of another database may have them. It looks before each change, so one in the moment
// of the replacement is still possible.
type folderFS struct {
	vfs.FS
	folder *dataFolder
}

// Unwrap returns the file system below, for which Pebble asks.
func (f *folderFS) Unwrap() vfs.FS { return f.FS }

// check returns an error if the folder is missing.
func (f *folderFS) check() error {
	if !f.folder.present() {
		return f.folder.err()
	}
	return nil
}

// Create creates a file, and replaces one that exists.
func (f *folderFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.FS.Create(name, category)
}

// OpenReadWrite opens a file, which is created if it does not exist.
func (f *folderFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(name, category, opts...)
}

// ReuseForWrite renames a file and opens it.
func (f *folderFS) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.FS.ReuseForWrite(before, name, category)
}

// Link gives a file a second name.
func (f *folderFS) Link(before, name string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.FS.Link(before, name)
}

// Rename renames a file.
func (f *folderFS) Rename(before, name string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.FS.Rename(before, name)
}

// Remove removes a file.
func (f *folderFS) Remove(name string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// RemoveAll removes a folder and what it has.
func (f *folderFS) RemoveAll(name string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}

// MkdirAll creates a folder.
func (f *folderFS) MkdirAll(dir string, mode os.FileMode) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, mode)
}
