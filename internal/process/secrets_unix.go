//go:build unix

package process

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerAndUser returns the owner of a file, and the user that runs the process.
func ownerAndUser(info fs.FileInfo) (owner, user int, ok bool) {
	user = os.Geteuid()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return user, user, true
	}
	return int(stat.Uid), user, true
}
