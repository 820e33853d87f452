//go:build unix

package process

import "syscall"

// maxFiles returns how many files this process may open; 0 if that is unknown.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it has a sign on FreeBSD
}
