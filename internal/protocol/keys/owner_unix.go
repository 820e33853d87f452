//go:build unix

package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner of the one that it replaces, so that the server can still
// read it. Only root may do that.
func keepOwner(path string, file *os.File) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	if err := file.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("%s belongs to the user %d, and the changed file cannot be given to it: %w\n        run the command as that user or as root", path, owner.Uid, err)
	}
	return nil
}
