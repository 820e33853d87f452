package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 20 10 20 0 1 0 1 1 1"
	got, err := parseStat([]byte(line))
	if err != nil || got.parent != 7 || got.cpu != 2300*time.Millisecond {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 42 42 0 -1 4194560 1 2 3 4 150 50 20 10 20"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func TestUsageOfOurselves(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	if _, err := cpuOf(os.Getpid()); err != nil {
		t.Error(err)
	}
	now, most, err := memoryOf(os.Getpid())
	if err != nil || now == 0 || most < now {
		t.Errorf("%d bytes now, %d at most, %v", now, most, err)
	}
	if got, err := cpuOf(1 << 30); err == nil {
		t.Errorf("a process that does not exist used %v", got)
	}
}

func TestDiskOf(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := diskOf(folder); err != nil || got > 200_000 {
		t.Errorf("got %d, %v", got, err)
	}
}
