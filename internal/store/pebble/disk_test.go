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

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/virtualtime"
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

// After a write found no space the disk counts as full for a while, by the monotonic clock,
// although there seems to be space: it may be out of inodes.
func TestDiskCountsAsFullForAWhile(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
		d := newDisk(Options{FS: withFolder(t, mem), Dir: "d"}.withDefaults())
		d.noSpace() // which pauses
		for _, full := range []bool{true, false} {
			if d.check(); d.is(isFull) != full {
				t.Errorf("the disk is full: %v", !full)
			}
			time.Sleep(noSpaceTime - noSpacePause)
		}
	})
}

// A delete waits for the space that a compaction uses, and is rejected if there is none.
func TestDeletesWaitForCompactions(t *testing.T) {
	for _, c := range []struct {
		name             string
		compacts, frees  bool
		deletes, accepts bool
		waits            bool
	}{
		{name: "the compaction ends", compacts: true, frees: true, deletes: true, accepts: true, waits: true},
		{name: "the compaction takes long", compacts: true, deletes: true, waits: true},
		{name: "there is no compaction", frees: true, deletes: true},
		{name: "a write", compacts: true, frees: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				mem, ctx := vfs.NewMem(), t.Context()
				free := func(bytes uint64) {
					mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: bytes})
				}
				free(reserve(diskBytes) / 4)
				d := newDisk(Options{FS: withFolder(t, mem), Dir: "d"}.withDefaults())
				if c.compacts {
					d.compacts.begin(pebble.CompactionInfo{JobID: 1})
				}
				if c.frees {
					time.AfterFunc(deleteWait/2, func() { free(reserve(diskBytes) / 2) })
				}
				if c.deletes {
					ctx = store.Freeing(ctx)
				}
				began := time.Now()
				err := d.admit(ctx)
				if (err == nil) != c.accepts || err != nil && !errors.Is(err, store.ErrFull) || (time.Since(began) > 0) != c.waits {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				time.Sleep(deleteWait) // the space is there
			})
		})
	}
}

// Level 0 is compacted to the first level that has tables, unless that is large.
func TestBaseLevel(t *testing.T) {
	const base = 64 << 20
	for _, c := range []struct {
		levels [numLevels]uint64
		want   uint64
	}{
		{[numLevels]uint64{}, 0},
		{[numLevels]uint64{0: 1 << 20}, 0},
		{[numLevels]uint64{0: 1 << 20, 6: 50 << 20}, 50 << 20},
		{[numLevels]uint64{0: 1 << 20, 6: 80 << 30}, 0},
		{[numLevels]uint64{0: 1 << 20, 4: 40 << 20, 5: 500 << 20, 6: 4 << 30}, 40 << 20},
		{[numLevels]uint64{0: 1 << 20, 5: 4 << 30, 6: 40 << 30}, 0},
	} {
		if got := baseLevelBytes(c.levels, base); got != c.want {
			t.Errorf("%v: got %d, want %d", c.levels, got, c.want)
		}
	}
}

// loadedDisk is a disk of 100 GB with a database that has these levels.
func loadedDisk(t *testing.T, free uint64, sublevels int32, levels map[int]int64) *disk {
	t.Helper()
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: 100 << 30, AvailBytes: free})
	d := newDisk(Options{FS: withFolder(t, mem), Dir: "d"}.withDefaults())
	d.backlog.open(func() *pebble.Metrics {
		var m pebble.Metrics
		m.Levels[0].Sublevels = sublevels
		for level, bytes := range levels {
			m.Levels[level].TablesSize = bytes
		}
		return &m
	}, 32<<20, 64<<20)
	d.check()
	return d
}

// A large database on a disk with some gigabytes to spare is written. Its tables are in one
// level after they were compacted while it was idle.
func TestLargeDatabaseIsWritten(t *testing.T) {
	for free, full := range map[uint64]bool{12 << 30: false, 1 << 30: false, 64 << 20: true} {
		d := loadedDisk(t, free, 1, map[int]int64{0: 1 << 20, 6: 80 << 30})
		if err := d.admit(t.Context()); errors.Is(err, store.ErrFull) != full || err != nil && !full {
			t.Errorf("with %d bytes free: %v", free, err)
		}
	}
}

// As long as writes are accepted, there is space to compact level 0 after some more.
func TestSpaceForLevel0IsKept(t *testing.T) {
	const total, more = 64 << 20, 256 << 10
	keep := reserve(total)
	accepted := 0
	for free := uint64(total); free > 0; free -= 1 << 20 {
		for level0 := uint64(0); level0 < total-free; level0 += 1 << 20 {
			mem := vfs.NewMem()
			mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: total, AvailBytes: free})
			d := newDisk(Options{FS: withFolder(t, mem), Dir: "d"}.withDefaults())
			d.backlog.open(func() *pebble.Metrics {
				var m pebble.Metrics
				m.Levels[0].Sublevels, m.Levels[0].TablesSize = int32(level0>>20), int64(level0)
				m.Levels[5].TablesSize, m.WAL.Size = 1<<20, 1<<20
				return &m
			}, 1<<20, 1<<20)
			d.check()
			if d.state.Load() != 0 {
				continue
			}
			accepted++
			if need := level0 + 2<<20 + keep/8; free-more < need+more {
				t.Errorf("writes are accepted with %d bytes free, although a compaction needs %d", free, need)
			}
		}
	}
	if accepted < 100 {
		t.Errorf("the control: writes are accepted in %d states", accepted)
	}
}

// A write to a full disk is rejected as such also if Pebble is behind: then a delete is tried
// again as one that frees space.
func TestFullDiskWithBacklog(t *testing.T) {
	d := loadedDisk(t, 100<<20, maxSublevels+1, map[int]int64{0: 400 << 20, 5: 200 << 20, 6: 1 << 30})
	if !d.is(isBehind) || !d.is(isFull) {
		t.Fatalf("the state is %b", d.state.Load())
	}
	if err := d.admit(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("a write: %v", err)
	}
	if err := d.admit(store.Freeing(t.Context())); err != nil {
		t.Errorf("a delete: %v", err)
	}
}

func TestReserveOfASmallDisk(t *testing.T) {
	if got := reserve(160 << 20); got != 10<<20 {
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
	eventually(t, "writes are rejected", func() bool { return e.disk.is(isFull) })
	noSpace.Store(false)
	eventually(t, "writes are accepted again", func() bool { return !e.disk.is(isFull) })
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
