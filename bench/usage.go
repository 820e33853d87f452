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

// What a process and those it started use, as Linux tells. Elsewhere these
// are errors, and the report has no such figures.

// tick is the unit of times in /proc: on Linux always a hundredth of a second.
const tick = 10 * time.Millisecond

// processTimes are the fields of /proc/PID/stat that we look at.
type processTimes struct {
	parent int
	cpu    time.Duration
}

// parseStat reads a line of /proc/PID/stat. The name may hold anything, so
// fields are counted from its closing bracket.
func parseStat(line []byte) (processTimes, error) {
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 15 {
		return processTimes{}, fmt.Errorf("/proc has a stat of %q", line)
	}
	var p processTimes
	var err error
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return processTimes{}, fmt.Errorf("/proc has a stat of %q", line)
	}
	// utime, stime, and those of children that have ended.
	for _, f := range fields[11:15] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return processTimes{}, fmt.Errorf("/proc has a stat of %q", line)
		}
		p.cpu += time.Duration(n) * tick
	}
	return p, nil
}

// family is a process and all below it, by number.
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
		return nil, fmt.Errorf("/proc knows no process %d", root)
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

// cpuOf is the processor time that a process and those below it have used.
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

// memoryOf is what a process and those below it hold in memory, and the most
// they ever held, in bytes.
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

// diskOf is what the files of a folder take on disk, in bytes.
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

// settle waits until a process has nothing left to do: what a server tidies
// up after a slice must not fall into the next one's. It gives up after a
// while, since some never rest.
func settle(ctx context.Context, pid int, patience time.Duration) {
	rest(ctx, pid, quick, patience)
}

// quick is long enough for who tidies up at once.
const quick = 10 * tick

// rest waits until a process has done next to nothing for some time.
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
