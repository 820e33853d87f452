//go:build !linux && !darwin

package blob

import "os"

// lockFile does nothing on this platform. Windows does not remove files that are open.
func lockFile(*os.File) error { return nil }
