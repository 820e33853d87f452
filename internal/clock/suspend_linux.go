package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2): the second one also counts while the machine is
// suspended.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns how long the machine was suspended since it started.
func suspended() time.Duration {
	monotonic, ok := read(clockMonotonic)
	boot, booted := read(clockBoottime)
	if !ok || !booted {
		return 0
	}
	return boot - monotonic
}

func read(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
