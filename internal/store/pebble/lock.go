package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// LockedError is returned by Open when another engine has the folder open.
type LockedError struct {
	Dir string
	PID int // zero if unknown
}

// Error completes the sentence "cannot open data in ./data: …".
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return "another process is using it"
	}
	return fmt.Sprintf("another stator (pid %d) is using it", e.PID)
}

// dirLock is Pebble's lock of a folder, with a file that names the process that holds it.
type dirLock struct {
	fs   vfs.FS
	pid  string // the file's path
	lock *pebble.Lock
}

const pidName = "stator.pid"

// lockDir locks a folder. It creates the folder if it does not exist.
func lockDir(f vfs.FS, dir string) (*dirLock, error) {
	if err := makeDir(f, dir); err != nil {
		return nil, err
	}
	l := &dirLock{fs: f, pid: f.PathJoin(dir, pidName)}
	var err error
	l.lock, err = pebble.LockDirectory(dir, f)
	if _, failed := errors.AsType[*fs.PathError](err); failed {
		return nil, err // the lock file cannot even be opened
	}
	if err != nil {
		return nil, &LockedError{Dir: dir, PID: l.owner()}
	}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", l.pid, err), l.lock.Close())
	}
	return l, nil
}

// MakeDir creates a folder and the missing folders above it, durably, if it does not exist.
func MakeDir(dir string) error { return makeDir(privateFS{vfs.Default}, dir) }

// makeDir creates a folder and the missing folders above it. Pebble syncs the parent of its
// folder, but none further up.
func makeDir(f vfs.FS, dir string) error {
	var above []string // the folders in which other folders than dir are created
	for d := f.PathDir(dir); f.PathDir(d) != d; d = f.PathDir(d) {
		if _, err := f.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, f.PathDir(d))
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range above {
		if err := syncDir(f, d); err != nil {
			return fmt.Errorf("sync %s: %w", d, err)
		}
	}
	return nil
}

// SyncDir makes added, renamed and removed names in a folder durable.
func SyncDir(dir string) error { return syncDir(vfs.Default, dir) }

func syncDir(f vfs.FS, dir string) error {
	d, err := f.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sign writes the id of this process to the file.
func (l *dirLock) sign() error {
	f, err := l.fs.Create(l.pid, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	if errors.Is(err, syscall.ENOSPC) {
		err = nil // the name of the process can be missed, the data cannot
	}
	return errors.Join(err, f.Close())
}

// owner returns the process that the file names, zero if none.
func (l *dirLock) owner() int {
	f, err := l.fs.Open(l.pid)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

func (l *dirLock) release() error {
	_ = l.fs.Remove(l.pid) // it means nothing without the lock
	return l.lock.Close()
}
