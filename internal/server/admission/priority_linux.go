package admission

import "syscall"

// patience is how nice a thread is that has much to do: it gets a tenth of what
// others get, when they want all.
const patience = 10

// lowerPriority makes the thread that it is called on give way to others.
func lowerPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, patience) // of the thread; it is all the same if it is not allowed
}
