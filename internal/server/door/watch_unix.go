//go:build unix && !linux

package door

import "syscall"

// closedByPeer reports whether the peer of a socket has closed it and all bytes
// that it sent before have been read.
func closedByPeer(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n == 0 && err == nil || err == syscall.ECONNRESET
}
