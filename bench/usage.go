package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Resource usage of a process and its children, from /proc. On other systems
// these functions return errors, and the report lacks the figures.

// tick is the unit of times in /proc: on Linux always a hundredth of a second.
const tick = 10 * time.Millisecond

// processTimes are the fields of /proc/PID/stat that we use.
type processTimes struct {
	parent int
	cpu    time.Duration
}

// parseStat parses /proc/PID/stat. The name may contain anything, so fields are
// counted from its closing bracket.
func parseStat(line []byte) (processTimes, error) {
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 15 {
		return processTimes{}, fmt.Errorf("/proc has the invalid stat %q", line)
	}
	var p processTimes
	var err error
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return processTimes{}, fmt.Errorf("/proc has the invalid stat %q", line)
	}
	// utime, stime, and the same of children that have ended.
	for _, f := range fields[11:15] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return processTimes{}, fmt.Errorf("/proc has the invalid stat %q", line)
		}
		p.cpu += time.Duration(n) * tick
	}
	return p, nil
}

// family returns a process and all its descendants, by process id.
func family(root int) (map[int]processTimes, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := map[int]processTimes{}
	for _, f := range folders {
		pid, err := strconv.Atoi(filepath.Base(f))
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(f, "stat"))
		if err != nil {
			continue // it has ended
		}
		if p, err := parseStat(line); err == nil {
			all[pid] = p
		}
	}
	if _, ok := all[root]; !ok {
		return nil, fmt.Errorf("/proc has no process %d", root)
	}
	ours := map[int]processTimes{root: all[root]}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if _, known := ours[pid]; !known {
				if _, related := ours[p.parent]; related {
					ours[pid], grown = p, true
				}
			}
		}
	}
	return ours, nil
}

// cpuOf returns the processor time of a process and its descendants.
func cpuOf(pid int) (time.Duration, error) {
	members, err := family(pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, p := range members {
		sum += p.cpu
	}
	return sum, nil
}

// memoryOf returns the resident memory of a process and its descendants, now and
// at its peak, in bytes.
func memoryOf(pid int) (now, most int64, err error) {
	members, err := family(pid)
	if err != nil {
		return 0, 0, err
	}
	for pid := range members {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		now += kilobytes(status, "VmRSS:") << 10
		most += kilobytes(status, "VmHWM:") << 10
	}
	return now, most, nil
}

func kilobytes(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return n
}

// diskOf returns the disk usage of a folder, in bytes.
func diskOf(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
			sum += stat.Blocks * 512
		}
		return nil
	})
	return sum, err
}

// settle waits until a process is idle, so that background work after a slice
// does not run during the next one. It gives up after a while, since some
// servers are never idle.
func settle(ctx context.Context, pid int, patience time.Duration) {
	rest(ctx, pid, quick, patience)
}

// quick is long enough for a server that does its background work at once.
const quick = 10 * tick

// rest waits until a process has used little processor time for a window.
func rest(ctx context.Context, pid int, window, patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, err := cpuOf(pid)
		if err != nil || pause(ctx, window) != nil {
			return
		}
		if after, err := cpuOf(pid); err != nil || after-before <= window/10 {
			return
		}
	}
}
