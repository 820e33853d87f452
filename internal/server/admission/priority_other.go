//go:build !linux

package admission

// lowerPriority does nothing: threads have no priority of their own everywhere.
func lowerPriority() {}
