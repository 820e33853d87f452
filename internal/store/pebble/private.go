package pebble

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The modes of what an engine creates: only its user reads it, whatever the mode of the
// folder and the umask are.
const (
	privateFile   = 0o600
	privateFolder = 0o700
)

// privateFS is the disk. The files and folders that are created on it are private; Pebble's
// own modes are 0666 and 0755.
type privateFS struct{ vfs.FS }

// Unwrap returns the file system below, for which Pebble asks.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// Create creates a file, and replaces one that exists.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := createPrivate(name, os.O_EXCL)
	for errors.Is(err, fs.ErrExist) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		err = createPrivate(name, os.O_EXCL)
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category)
}

// OpenReadWrite opens a file, which is created if it does not exist.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := createPrivate(name, 0); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

// lockFiles are the lock files of this process. A file must not even be opened while it is one of them:
// the system drops the lock of a process when the process closes any descriptor of the file. It also lets
// a process lock a file again, by another name of it.
var lockFiles struct {
	sync.Mutex
	held []*lockFile
}

type lockFile struct {
	io.Closer
	info fs.FileInfo
}

// Lock locks a file, which is created if it does not exist.
func (p privateFS) Lock(name string) (io.Closer, error) {
	lockFiles.Lock()
	defer lockFiles.Unlock()
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case slices.ContainsFunc(lockFiles.held, func(l *lockFile) bool { return os.SameFile(l.info, info) }):
		return nil, errors.New("this process has locked the file")
	}
	if err := createPrivate(name, 0); err != nil {
		return nil, err
	}
	lock, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if info, err = os.Stat(name); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l := &lockFile{Closer: lock, info: info}
	lockFiles.held = append(lockFiles.held, l)
	return l, nil
}

// Close unlocks the file.
func (l *lockFile) Close() error {
	lockFiles.Lock()
	defer lockFiles.Unlock()
	lockFiles.held = slices.DeleteFunc(lockFiles.held, func(other *lockFile) bool { return other == l })
	return l.Closer.Close()
}

// MkdirAll creates a folder.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error {
	return p.FS.MkdirAll(dir, privateFolder)
}

// createPrivate creates an empty file. It is opened again to be written: nobody else can
// have opened it in between.
func createPrivate(name string, flag int) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|flag, privateFile)
	if err != nil {
		return err
	}
	return f.Close()
}

// makePrivate removes the access of others to the files of an engine in a folder, which may
// be of an earlier version. A file whose mode cannot be changed is logged.
func makePrivate(dir string, log *slog.Logger) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isOwn(e.Name()) || !info.Mode().IsRegular() || info.Mode().Perm()&^privateFile == 0 {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, e.Name()), privateFile); err != nil {
			log.Warn("a data file can be read by other users", "error", err)
		}
	}
	return nil
}

// isOwn reports whether a file of this name is one of an engine.
func isOwn(name string) bool {
	for _, prefix := range []string{"stator.", "marker.", "MANIFEST-", "OPTIONS-", "LOCK"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	numbered := name[0] >= '0' && name[0] <= '9'
	return numbered && slices.Contains([]string{".sst", ".log", ".blob"}, filepath.Ext(name)) || filepath.Ext(name) == ".dbtmp"
}
