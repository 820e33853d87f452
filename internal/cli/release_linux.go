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
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = smaps.Close() }()
	var start, end uintptr // of a mapping of the program
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); n == 3 {
			start, end = 0, 0
			if strings.HasSuffix(lines.Text(), program) && !strings.Contains(mode, "w") {
				start, end = from, to
			}
		}
		// What a linker has written before it was closed to writing is
		// nowhere but in memory.
		if fields := strings.Fields(lines.Text()); start != 0 && fields[0] == "Anonymous:" && fields[1] == "0" {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
