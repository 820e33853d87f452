//go:build !linux

package admission

// lowerPriority does nothing: not every system has a priority for each thread.
func lowerPriority() {}
