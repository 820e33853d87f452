//go:build !linux

package process

// ReleaseProgram does nothing.
func ReleaseProgram() {}
