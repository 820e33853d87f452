package pebble

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

const diskBytes = 1 << 40

func TestFullDiskRefusesWritesAndServesReads(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
	e := mustOpen(t, Options{FS: mem, Dir: "d", DiskCheck: time.Millisecond})
	defer e.Close()
	if err := set(e, "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: reserve(diskBytes) - 1})
	eventually(t, "writes are refused", func() bool { return errors.Is(set(e, "a", []byte("1")), store.ErrFull) })
	if v, err := e.Get(context.Background(), store.Strong, []byte("a")); err != nil || string(v[0]) != "1" {
		t.Errorf("Get on a full disk: %q, %v", v, err)
	}
	if err := e.DeleteRange(context.Background(), []byte("b"), []byte("c")); err != nil {
		t.Errorf("DeleteRange on a full disk: %v", err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
	eventually(t, "writes go on", func() bool { return set(e, "a", []byte("1")) == nil })
}

// Between two looks at the disk less is written than its reserve, also of a
// small one.
func TestManyBytesAreNotWrittenUnlooked(t *testing.T) {
	for _, total := range []uint64{diskBytes, 20 << 20} {
		mem := vfs.NewMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: total, AvailBytes: total / 2})
		e := mustOpen(t, Options{FS: mem, Dir: "d", Durability: Relaxed, DiskCheck: time.Hour})
		defer e.Close()
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: total, AvailBytes: 1})
		value := bytes.Repeat([]byte("v"), 10<<10)
		for written := 0; ; written += len(value) {
			err := set(e, "a", value)
			if errors.Is(err, store.ErrFull) {
				break
			}
			if err != nil || uint64(written) > reserve(total)/4 {
				t.Fatalf("no write is refused after %d bytes, of %d in reserve: %v", written, reserve(total), err)
			}
		}
	}
}

func TestReserveIsATwentiethOfASmallDisk(t *testing.T) {
	if got := reserve(100 << 20); got != 5<<20 {
		t.Errorf("got %d", got)
	}
}

// A flush that finds no space is tried again until there is some.
func TestFlushWithoutSpace(t *testing.T) {
	var noSpace atomic.Bool
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if noSpace.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: time.Millisecond, DiskCheck: 10 * time.Millisecond})
	defer e.Close()
	noSpace.Store(true)
	fill(t, e, 1)
	eventually(t, "writes are refused", e.disk.full.Load)
	noSpace.Store(false)
	eventually(t, "writes go on", func() bool { return !e.disk.full.Load() })
	fill(t, e, 10)
}

// So is one that finds space for its table, and none for the record of it.
func TestManifestWithoutSpace(t *testing.T) {
	var noSpace atomic.Bool
	met := make(chan struct{}, 1000)
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if noSpace.Load() && op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST") {
			met <- struct{}{}
			return syscall.ENOSPC
		}
		return nil
	})
	ended := make(chan int, 1)
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) {
		ended <- code
		select {}
	}})
	fill(t, e, 1)
	noSpace.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- e.db.Flush() }()
	for range 4 { // it tries again and again
		select {
		case <-met:
		case code := <-ended:
			t.Fatalf("the process ends with %d", code)
		}
	}
	noSpace.Store(false)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
