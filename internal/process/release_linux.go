package process

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ReleaseProgram returns the pages of the program's file that are mapped into
// memory to the system: after the start they are half of the memory of an idle
// server. Pages that are used again are read from the file again.
func ReleaseProgram() {
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
		// Pages that the dynamic linker wrote before it made them read-only
		// are anonymous: they exist in memory only.
		if fields := strings.Fields(lines.Text()); start != 0 && fields[0] == "Anonymous:" && fields[1] == "0" {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
