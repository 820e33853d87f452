package mcp

import "io/fs"

// isPrivate is true: the mode of a file of Windows does not tell who may read it.
func isPrivate(fs.FileMode) bool { return true }
