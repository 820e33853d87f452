package pebble

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A program that creates a folder next to another one, and removes what an earlier attempt left
// there, marks it with a file: the name of a folder says little, and others may have it.

// MakeMarked creates a folder, which must not exist, and the missing folders above it, and marks
// it durably.
func MakeMarked(dir, mark string) error {
	if err := MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, privateFolder); err != nil {
		return err
	}
	return Mark(dir, mark)
}

// Mark creates the file of the name mark in a folder, durably.
func Mark(dir, mark string) error {
	f, err := os.OpenFile(filepath.Join(dir, mark), os.O_WRONLY|os.O_CREATE, privateFile)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(vfs.Default, dir))
}

// Unmark removes the mark of a folder, if it has one, durably.
func Unmark(dir, mark string) error {
	err := os.Remove(filepath.Join(dir, mark))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(dir)
}

// ErrNotMarked is returned by RemoveMarked for a folder without the mark.
var ErrNotMarked = errors.New("it does not have the file that marks it")

// removingName is the file that says that a marked folder is being removed: what is left of it
// must not be opened.
const removingName = "stator.removing"

// IsBeingRemoved reports whether the removal of a marked folder has begun, and was interrupted.
func IsBeingRemoved(dir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, removingName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RemoveMarked removes a folder that is empty or has a file of the name mark, if it exists. It can
// be called again after a crash; IsBeingRemoved reports what that has left. RemoveMarked returns
// ErrNotMarked for anything else, and a *LockedError when an engine has the folder open.
func RemoveMarked(dir, mark string) error {
	dir, err := filepath.Abs(dir) // as Open names it
	if err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return ErrNotMarked
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return os.Remove(dir)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == mark || e.Name() == removingName }) {
		return ErrNotMarked
	}
	lock, err := lockDir(vfs.Default, dir)
	if err != nil {
		return err
	}
	if err := Mark(dir, removingName); err != nil {
		return errors.Join(err, lock.release())
	}
	return errors.Join(removeLast(dir, removingName), lock.release())
}

// removeLast removes a folder: one of its files after all others.
func removeLast(dir, last string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == last {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(os.Remove(filepath.Join(dir, last)), os.Remove(dir))
}
