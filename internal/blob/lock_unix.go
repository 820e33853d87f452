//go:build linux || darwin

package blob

import (
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, or returns an error if another open file
// has it locked.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
