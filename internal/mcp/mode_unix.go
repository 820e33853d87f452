//go:build !windows

package mcp

import "io/fs"

// isPrivate reports whether only the owner of a file has permissions.
func isPrivate(mode fs.FileMode) bool { return mode.Perm()&0o077 == 0 }
