package process

import (
	"bufio"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// AvailableMemory is the number of bytes that this process may use: the memory of
// the machine, or of its control group. It is 0 when the system does not report it.
func AvailableMemory() int64 { return availableMemory(os.DirFS("/")) }

func availableMemory(root fs.FS) int64 {
	total := memTotal(root)
	if total <= 0 {
		return 0
	}
	return min(total, groupMemory(root))
}

// groupMemory is the smallest limit of the process's control group and the groups
// around it. A container sees its group as the root, or has the path of the host:
// so the groups from the root on are read as well.
func groupMemory(root fs.FS) int64 {
	memory := int64(math.MaxInt64)
	limit := func(file string) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			memory = min(memory, n)
		}
	}
	v1, v2 := ownGroups(root)
	for _, dir := range ancestors(v1) {
		limit(path.Join("sys/fs/cgroup/memory", dir, "memory.limit_in_bytes"))
	}
	for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
		for _, dir := range ancestors(v2) {
			limit(path.Join(mount, dir, "memory.max"))
			limit(path.Join(mount, dir, "memory.high"))
		}
	}
	return memory
}

// ownGroups returns the control groups of the process for memory: of version 1, and
// of version 2, whose line has no controllers.
func ownGroups(root fs.FS) (v1, v2 string) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			v2 = parts[2]
		}
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			v1 = parts[2]
		}
	}
	return v1, v2
}

// ancestors returns a group and the groups around it, up to the root.
func ancestors(group string) []string {
	dirs := []string{"/"}
	for dir := path.Clean("/" + group); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func memTotal(root fs.FS) int64 {
	info, err := root.Open("proc/meminfo")
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
