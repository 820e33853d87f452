package cli

import (
	"bufio"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/store/pebble"
)

// defaultCacheMB is how much of the machine's memory is for what was read lately,
// unless a flag says it. A database is rarely alone on a machine.
func defaultCacheMB(machine int64) int64 {
	return max(1, min(max(machine>>20/16, 64), 1024, mostCache(machine)>>20))
}

// machineMemory is how many bytes of memory this process may have; 0 when the
// system does not tell.
func machineMemory() int64 {
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

// besideCache is what a server takes beside its cache, at most for long.
const besideCache = 1 << 30

// limitMemory has garbage collected sooner once a large cache is full: otherwise
// the heap grows to twice of what is in use, and a cache of half the machine's
// memory would take all of it. It changes nothing when GOMEMLIMIT is set.
func limitMemory(cacheBytes, machine int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(cacheBytes, machine) - pebble.OutsideHeap(cacheBytes))
	}
}

// memoryLimit is for all that the process holds. It leaves garbage a quarter of what
// the cache has, as far as the machine has so much.
func memoryLimit(cacheBytes, machine int64) int64 {
	limit := cacheBytes + cacheBytes/4 + besideCache
	if machine > 0 {
		limit = min(limit, machine/8*7)
	}
	return limit
}

// mostCache is how large a cache can be: the system ends a process that takes more
// memory than there is.
func mostCache(machine int64) int64 {
	if machine == 0 {
		return math.MaxInt64
	}
	return machine / 4 * 3
}

// startOver is when what only the start needed is given back: after the first
// requests, which would wait for it.
const startOver = 500 * time.Millisecond

// holdGarbage lets a start go on without collecting garbage, of which there is
// little: unless it needs more memory than a start should. What it returns is
// called when the start is over, and may be called again.
func holdGarbage() (collect func()) {
	percent := debug.SetGCPercent(-1)
	if percent < 0 {
		return func() {} // it is off by somebody else, who knows why
	}
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, 256<<20))
	return sync.OnceFunc(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}
