package process

import (
	"testing"
	"testing/fstest"
)

// The memory of a process is that of its own control group or of one around it, in
// both versions of control groups; the memory of the machine is the upper bound.
func TestAvailableMemory(t *testing.T) {
	const machine = "MemTotal:        1048576 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups":               {nil, 1 << 30},
		"version 2":               {map[string]string{"proc/self/cgroup": "0::/system.slice/stator.service\n", "sys/fs/cgroup/system.slice/stator.service/memory.max": "536870912\n"}, 512 << 20},
		"version 2, a parent":     {map[string]string{"proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/a/b/c/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000000\n"}, 1000000},
		"version 2, memory.high":  {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "2000000\n", "sys/fs/cgroup/a/memory.high": "1000000\n"}, 1000000},
		"a container's root":      {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000\n"}, 1000000},
		"version 1":               {map[string]string{"proc/self/cgroup": "5:cpu,memory:/a/b\n0::/\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "1000000\n"}, 1000000},
		"version 1, a parent":     {map[string]string{"proc/self/cgroup": "5:memory:/a/b\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000000\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n"}, 1000000},
		"version 1, path of host": {map[string]string{"proc/self/cgroup": "5:memory:/docker/1234\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n"}, 1000000},
		"both":                    {map[string]string{"proc/self/cgroup": "4:memory:/a\n0::/b\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2000000\n", "sys/fs/cgroup/unified/b/memory.max": "1000000\n"}, 1000000},
		"more than the machine":   {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "99999999999\n"}, 1 << 30},
		"another group":           {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/b/memory.max": "1000000\n"}, 1 << 30},
	} {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte(machine)}}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := availableMemory(root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
	if got := availableMemory(fstest.MapFS{}); got != 0 {
		t.Errorf("an unknown system has %d bytes", got)
	}
}
