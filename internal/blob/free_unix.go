//go:build linux || darwin

package blob

import "syscall"

// freeBytes returns the free bytes of the disk that a folder is on, and its size.
func freeBytes(dir string) (free, total uint64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, false
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), true
}
