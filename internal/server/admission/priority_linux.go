package admission

import "syscall"

// niceness of a low-priority thread: it gets about a tenth of the processor time
// of a normal thread when both are busy.
const niceness = 10

// lowerPriority lowers the scheduling priority of the calling thread.
func lowerPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness) // 0 is the calling thread; without the permission the thread keeps its priority
}
