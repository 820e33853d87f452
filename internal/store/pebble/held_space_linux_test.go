package pebble

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func allocated(path string) int64 {
	is, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return is.Sys().(*syscall.Stat_t).Blocks * 512
}

// Half of the reserve is allocated in a file, and released when a write finds no space.
func TestReserveIsHeld(t *testing.T) {
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: dir, DiskCheck: time.Hour})
	defer e.Close()
	file := filepath.Join(dir, reserveName)
	eventually(t, "the reserve is held", func() bool { return e.disk.held.bytes() > 0 })
	if got, want := allocated(file), int64(e.disk.held.bytes()); got < want || want < minReserveBytes/2 {
		t.Errorf("%d bytes are allocated, want %d", got, want)
	}
	e.disk.noSpace()
	if got := allocated(file); got != 0 || e.disk.held.bytes() != 0 {
		t.Errorf("%d bytes are still allocated", got)
	}
}

// A folder that allocates nothing in advance takes little more than what was written to it.
func TestNoPreallocation(t *testing.T) {
	used := func(o Options) (bytes int64) {
		o.Dir, o.DiskCheck = t.TempDir(), time.Hour
		e := mustOpen(t, o)
		defer e.Close()
		if err := set(e, "a", []byte("1")); err != nil {
			t.Fatal(err)
		}
		e.disk.check()
		e.disk.holdReserve()
		files, err := filepath.Glob(filepath.Join(o.Dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			bytes += allocated(file)
		}
		return bytes
	}
	if bytes := used(Options{NoPreallocation: true}); bytes > 1<<20 {
		t.Errorf("%d bytes are allocated", bytes)
	}
	if bytes := used(Options{}); bytes < 32<<20 {
		t.Errorf("%d bytes are allocated by default", bytes)
	}
}

// An operator makes room by removing the file. It no longer counts as free space, and is
// created again.
func TestReserveIsRemovedByHand(t *testing.T) {
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: dir, DiskCheck: time.Millisecond})
	defer e.Close()
	file := filepath.Join(dir, reserveName)
	eventually(t, "the reserve is held", func() bool { return e.disk.held.bytes() > 0 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reserve is held again", func() bool { return allocated(file) > 0 && e.disk.held.bytes() > 0 })

	h := &heldSpace{fs: privateFS{vfs.Default}, path: filepath.Join(dir, "removed")}
	h.size.Store(1)
	if h.release() || h.bytes() != 0 {
		t.Errorf("%d bytes are held by a file that does not exist", h.bytes())
	}
}
