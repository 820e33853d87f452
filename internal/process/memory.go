package process

import (
	"bufio"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// AvailableMemory is the number of bytes that this process may use: the memory of
// the machine, or of its control group. It is 0 when the system does not report it.
func AvailableMemory() int64 {
	memory := int64(math.MaxInt64)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				memory = min(memory, n)
			}
		}
	}
	if n := memTotal(); n > 0 {
		return min(memory, n)
	}
	return 0
}

func memTotal() int64 {
	info, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer func() { _ = info.Close() }()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// LimitHeap sets the soft memory limit of the Go runtime. It does nothing when
// GOMEMLIMIT is set.
func LimitHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// maxDeferred is the heap from which garbage is collected although the collection
// is deferred.
const maxDeferred = 256 << 20

// DeferGC turns the garbage collector off while a server starts, which makes
// little garbage. resume turns it on again; it may be called more than once.
func DeferGC() (resume func()) {
	percent := debug.SetGCPercent(-1)
	if percent < 0 {
		return func() {} // the user, or another start in this process, has turned it off
	}
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, maxDeferred))
	return sync.OnceFunc(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}
