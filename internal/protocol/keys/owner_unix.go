//go:build unix

package keys

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner of the one that it replaces, which root may do, so that the
// server can still read it.
func keepOwner(path string, file *os.File) {
	info, err := os.Stat(path)
	if err != nil {
		return // it is new
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		_ = file.Chown(int(s.Uid), int(s.Gid)) // only root may
	}
}
