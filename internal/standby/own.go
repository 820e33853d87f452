package standby

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stator-db/stator/internal/store/pebble"
)

// ownName is the file that marks a folder as one that a standby has created. The names of these
// folders say little: other folders may have them, and must not be removed.
const ownName = "stator.standby"

// createOwn creates a folder, which must not exist, and marks it.
func createOwn(dir string) error { return pebble.MakeMarked(dir, ownName) }

// mark marks a folder durably.
func mark(dir string) error { return pebble.Mark(dir, ownName) }

// isMarked reports whether a folder is marked.
func isMarked(dir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, ownName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// unmark takes the mark from a folder that is not a standby's any more.
func unmark(dir string) error { return pebble.Unmark(dir, ownName) }

// removeOwn removes a folder that a standby has created, if it exists.
func removeOwn(dir string) error {
	err := pebble.RemoveMarked(dir, ownName)
	if errors.Is(err, pebble.ErrNotMarked) {
		return fmt.Errorf("the standby needs the name %s for a folder, and has not created what is there: move or remove it: %w", dir, err)
	}
	return err
}
