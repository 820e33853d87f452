package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgram gives back the pages of the program itself that only the start
// needed: half of what a server at rest holds. They are read from the file, and
// come back when they are used.
func releaseProgram() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var start, end uintptr
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &start, &end, &mode); err != nil {
			continue
		}
		// What cannot be written is the same in memory as in the file.
		if strings.HasPrefix(mode, "r") && mode[1] == '-' && strings.HasSuffix(lines.Text(), program) {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
