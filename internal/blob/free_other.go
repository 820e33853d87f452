//go:build !linux && !darwin

package blob

// freeBytes is not implemented on this platform.
func freeBytes(string) (free, total uint64, ok bool) { return 0, 0, false }
