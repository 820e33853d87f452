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

func TestFullDiskRejectsWritesAndServesReads(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
	e := mustOpen(t, Options{FS: mem, Dir: "d", DiskCheck: time.Millisecond})
	defer e.Close()
	if err := set(e, "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: reserve(diskBytes) - 1})
	eventually(t, "writes are rejected", func() bool { return errors.Is(set(e, "a", []byte("1")), store.ErrFull) })
	if v, err := e.Get(context.Background(), store.Strong, []byte("a")); err != nil || string(v[0]) != "1" {
		t.Errorf("Get on a full disk: %q, %v", v, err)
	}
	if err := e.DeleteRange(context.Background(), []byte("b"), []byte("c")); err != nil {
		t.Errorf("DeleteRange on a full disk: %v", err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
	eventually(t, "writes are accepted again", func() bool { return set(e, "a", []byte("1")) == nil })
}

// Between two checks of the free space less is written than the reserve, also on a small disk.
func TestDiskIsCheckedBeforeManyBytesAreWritten(t *testing.T) {
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
				t.Fatalf("no write is rejected after %d bytes, with a reserve of %d: %v", written, reserve(total), err)
			}
		}
	}
}

func TestReserveOfASmallDisk(t *testing.T) {
	if got := reserve(100 << 20); got != 5<<20 {
		t.Errorf("got %d", got)
	}
}

// A flush that finds no space is retried until there is some.
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
	eventually(t, "writes are rejected", e.disk.full.Load)
	noSpace.Store(false)
	eventually(t, "writes are accepted again", func() bool { return !e.disk.full.Load() })
	fill(t, e, 10)
}

// So is a flush that finds space for its table, but none for the record in the manifest.
func TestManifestWithoutSpace(t *testing.T) {
	var noSpace atomic.Bool
	attempts := make(chan struct{}, 1000)
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if noSpace.Load() && op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST") {
			attempts <- struct{}{}
			return syscall.ENOSPC
		}
		return nil
	})
	exited := make(chan int, 1)
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) {
		exited <- code
		select {}
	}})
	fill(t, e, 1)
	noSpace.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- e.db.Flush() }()
	for range 4 { // it is retried
		select {
		case <-attempts:
		case code := <-exited:
			t.Fatalf("the process exits with %d", code)
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
