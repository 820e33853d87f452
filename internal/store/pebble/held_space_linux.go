package pebble

import (
	"errors"
	"syscall"
)

// allocate allocates bytes after the end of a file, whose size does not change. So a copy
// of the folder does not contain them.
func allocate(fd uintptr, bytes int64) error {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	for {
		if err := syscall.Fallocate(int(fd), keepSize, 0, bytes); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported)
}
