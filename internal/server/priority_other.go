//go:build !linux

package server

// lowerPriority does nothing: threads have no priority of their own everywhere.
func lowerPriority() {}
