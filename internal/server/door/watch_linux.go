package door

import (
	"encoding/binary"
	"syscall"
)

// closedByPeer reports whether the peer of a TCP socket has closed it, even if
// bytes that it sent before have not been read.
func closedByPeer(fd uintptr) bool {
	info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
	if err != nil {
		return false
	}
	var first [4]byte
	binary.NativeEndian.PutUint32(first[:], uint32(info))
	const tcpClose, tcpCloseWait = 7, 8 // the states of tcp_states.h
	return first[0] == tcpClose || first[0] == tcpCloseWait
}
