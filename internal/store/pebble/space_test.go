package pebble

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/virtualtime"
)

// The memtable is small on a small disk, and all memtables fit into the reserve.
func TestMemtableOfASmallDisk(t *testing.T) {
	for _, c := range []struct{ disk, want uint64 }{
		{0, 32 << 20}, {1 << 40, 32 << 20}, {4 << 30, 32 << 20}, {160 << 20, 1280 << 10}, {24 << 20, 512 << 10},
	} {
		got := Options{}.forDisk(c.disk).memtableBytes
		if got != c.want {
			t.Errorf("a disk of %d bytes has a memtable of %d, want %d", c.disk, got, c.want)
		}
		if c.disk > 0 && reserve(c.disk) < maxMemtables*got {
			t.Errorf("a disk of %d bytes has a reserve of %d, too small for memtables of %d", c.disk, reserve(c.disk), got)
		}
	}
}

func remove(ctx context.Context, e *Engine, key string) error {
	return e.Update(ctx, [][]byte{[]byte(key)}, func(tx store.Tx) error {
		tx.Delete([]byte(key))
		return nil
	})
}

// On a full disk deletes are admitted, but they do not use up the reserve.
func TestDeletesOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	setFree := func(free uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: free})
	}
	setFree(diskBytes / 2)
	e := mustOpen(t, Options{FS: mem, Dir: "d", DiskCheck: time.Millisecond})
	defer e.Close()
	fill(t, e, 10)
	ctx := store.Freeing(t.Context())

	if err := e.Writable(); err != nil {
		t.Errorf("writes are rejected before: %v", err)
	}
	setFree(reserve(diskBytes) - 1)
	eventually(t, "writes are rejected", func() bool { return errors.Is(set(e, "a", []byte("1")), store.ErrFull) })
	if err := e.Writable(); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrNoSpaceToDelete) {
		t.Errorf("the engine reports that writes are accepted, or that deletes are not: %v", err)
	}
	if err := remove(ctx, e, string(fillKey(1))); err != nil {
		t.Errorf("a delete on a full disk: %v", err)
	}
	if err := remove(t.Context(), e, string(fillKey(2))); !errors.Is(err, store.ErrFull) {
		t.Errorf("the same without the mark: %v", err)
	}
	setFree(reserve(diskBytes) / 4)
	eventually(t, "deletes are rejected", func() bool { return errors.Is(remove(ctx, e, string(fillKey(3))), store.ErrFull) })
	if err := e.Writable(); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrNoSpaceToDelete) {
		t.Errorf("the engine reports that deletes are accepted: %v", err)
	}
}

// countWALs returns the numbers of WAL files in the folder d.
func countWALs(t *testing.T, fs vfs.FS) int {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") }))
}

// When space is short, WAL files that wait for reuse are removed, and nothing else is lost.
func TestObsoleteWALsAreRemovedWhenSpaceIsShort(t *testing.T) {
	mem := disktest.NewCrashable()
	setFree := func(free uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: free})
	}
	setFree(diskBytes / 2)
	e := mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: -1, DiskCheck: time.Millisecond})
	defer e.Close()
	flush := func() {
		t.Helper()
		fill(t, e, 10)
		if err := e.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		flush()
	}
	// Under load Pebble keeps more files than after these flushes.
	newest := newestWAL(mem, "d")
	for _, obsolete := range []wal.NumWAL{newest - 1, newest - 3} {
		write(t, mem, fmt.Sprintf("d/%06d.log", obsolete), []byte("obsolete"))
	}
	time.Sleep(10 * time.Millisecond) // several checks
	if n := countWALs(t, mem); n < 3 {
		t.Fatalf("%d WAL files although there is space: they are not kept for reuse", n) // the control
	}
	setFree(reserve(diskBytes) * 2)
	eventually(t, "WAL files are removed", func() bool { return countWALs(t, mem) <= 2 })
	flush() // the file that Pebble would reuse is not there
	fill(t, e, 20)
	eventually(t, "WAL files are removed", func() bool { return countWALs(t, mem) <= 2 })

	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	after := mustOpen(t, Options{FS: crashed, Dir: "d"})
	defer after.Close()
	for i := range 20 {
		if v, err := after.Get(t.Context(), store.Strong, fillKey(i)); err != nil || v[0] == nil {
			t.Errorf("item %d after a crash: %v, %v", i, v, err)
		}
	}
}

// A compaction cannot write what flushes need; with space it can.
func TestCompactionLeavesSpaceToFlushes(t *testing.T) {
	mem := vfs.NewMem()
	d := newDisk(Options{FS: mem, Dir: "d", DiskCheck: time.Hour}.withDefaults())
	fs := &diskFS{mem, d, newSpareFiles(mem)}
	write := func(category vfs.DiskWriteCategory, free uint64) error {
		t.Helper()
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: free})
		f, err := fs.Create("000001.sst", category)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write([]byte("block"))
		return errors.Join(err, f.Close())
	}
	const little = maxReserveBytes/8 - 1
	if err := write(categoryCompaction, little); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a compaction with little space: %v", err)
	}
	if err := errors.Join(write(categoryCompaction, little+1), write(categoryFlush, little)); err != nil {
		t.Error(err)
	}
}

// While flushes do not succeed, writes are rejected before Pebble would let them wait
// without a bound.
func TestWritesAreRejectedWhenPebbleIsBehind(t *testing.T) {
	var broken atomic.Bool
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	})
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, DiskCheck: time.Millisecond, memtableBytes: 256 << 10})
	defer e.Close()
	defer broken.Store(false)
	broken.Store(true)
	value := make([]byte, 10<<10)
	var err error
	for range 1000 {
		if err = set(e, "a", value); err != nil {
			break
		}
	}
	if !errors.Is(err, store.ErrBehind) {
		t.Fatalf("writes without flushes: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.disk.admit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a write whose context has ended: %v", err)
	}
	broken.Store(false)
	eventually(t, "writes are accepted again", func() bool { return set(e, "a", value) == nil })
}

// A failure is followed by a pause, and many failures are logged rarely.
func TestFailuresAreSlowedDown(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var log logtest.Log
		f := newFailures(log.Logger(), failureLogInterval)
		began := time.Now()
		for range 100 {
			f.failed(errors.New("no flush"))
			f.wait()
		}
		took := time.Since(began)
		if took < 90*maxFailurePause {
			t.Errorf("100 attempts took %v", took)
		}
		if n := strings.Count(log.String(), "no flush"); n < 2 || n > int(took/failureLogInterval)+1 {
			t.Errorf("%d log lines in %v", n, took)
		}
		f.succeeded()
		before := time.Now()
		f.wait()
		if time.Since(before) != 0 {
			t.Error("there is a pause after a success")
		}
	})
}

// Without a file descriptor the next WAL file is waited for. The process does not exit.
func TestNoDescriptorForTheWAL(t *testing.T) {
	var left atomic.Int64
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) && strings.HasSuffix(op.Path, ".log") && left.Add(-1) >= 0 {
			return syscall.EMFILE
		}
		return nil
	})
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) { panic("the process exits") }})
	defer e.Close()
	fill(t, e, 1)
	left.Store(2 * noFilesAttempts)
	if err := e.db.Flush(); err != nil {
		t.Error(err)
	}
	if left.Load() >= 0 {
		t.Error("the control: no descriptor was missing")
	}
	fill(t, e, 10)
}

// A spare descriptor is given up when there is no other.
func TestSpareDescriptors(t *testing.T) {
	spare := newSpareFiles(vfs.Default)
	spare.take()
	defer spare.close()
	if len(spare.files) != numSpareFiles {
		t.Fatalf("%d files", len(spare.files))
	}
	_, err := retryNoFiles(spare, func() (vfs.File, error) {
		if len(spare.files) == numSpareFiles {
			return nil, syscall.EMFILE
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// When the folder is moved away or replaced, writes are rejected and the engine is not
// healthy, until the folder is back.
func TestRemovedFolder(t *testing.T) {
	for name, removeIt := range map[string]func(t *testing.T, dir string){
		"moved": func(*testing.T, string) {},
		"replaced": func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			dir := filepath.Join(t.TempDir(), "data")
			e := mustOpen(t, Options{Dir: dir, DiskCheck: time.Millisecond, Log: log.Logger(), exit: func(int) { panic("the process exits") }})
			defer e.Close()
			if err := errors.Join(set(e, "a", []byte("1")), e.Healthy(t.Context())); err != nil {
				t.Fatal(err) // the control
			}
			if err := os.Rename(dir, dir+".moved"); err != nil {
				t.Fatal(err)
			}
			removeIt(t, dir)
			eventually(t, "writes are rejected", func() bool { return errors.Is(set(e, "a", []byte("2")), store.ErrRemoved) })
			if err := e.Healthy(t.Context()); !errors.Is(err, store.ErrRemoved) {
				t.Errorf("the engine is healthy: %v", err)
			}
			if err := e.Writable(); !errors.Is(err, store.ErrRemoved) {
				t.Errorf("the engine reports that writes are accepted: %v", err)
			}
			eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), "move the folder back") })
			// The engine may have created a file in it before it noticed.
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(dir+".moved", dir); err != nil {
				t.Fatal(err)
			}
			eventually(t, "writes are accepted", func() bool { return set(e, "a", []byte("3")) == nil })
		})
	}
}

// When another database's folder takes the place of the folder, its files stay as they are,
// although compactions are due and the engine is closed.
func TestReplacedFolderIsNotChanged(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		t.Run(fmt.Sprintf("guarded=%v", guarded), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			e := mustOpen(t, Options{Dir: dir, DiskCheck: time.Millisecond})
			defer e.Close()
			for range 3 {
				fill(t, e, 10)
				if err := e.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := e.Get(t.Context(), store.Strong, fillKey(1)); err != nil { // reads keep the tables open
				t.Fatal(err)
			}
			fs := e.disk.fs
			if !guarded {
				fs = privateFS{vfs.Default}
			}
			if err := os.Rename(dir, dir+".moved"); err != nil {
				t.Fatal(err)
			}
			before := otherFolder(t, dir)
			eventually(t, "the folder is missing", func() bool { return e.disk.is(isMissing) })
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_ = e.db.Compact(ctx, []byte("a"), []byte("z"), false) // as Pebble does when it is due
			path := filepath.Join(dir, "000100.sst")
			if f, err := fs.Create(path, categoryFlush); err == nil {
				_ = f.Close()
			}
			_ = fs.Remove(filepath.Join(dir, "000101.sst"))
			_ = fs.Rename(filepath.Join(dir, "000102.sst"), filepath.Join(dir, "000103.sst"))
			if f, err := fs.ReuseForWrite(filepath.Join(dir, "000104.sst"), filepath.Join(dir, "000105.sst"), categoryWAL); err == nil {
				_ = f.Close()
			}
			e.disk.noSpace() // removes stator.reserve
			_ = e.Close()    // removes stator.pid
			if after := contents(t, dir); maps.Equal(before, after) != guarded {
				t.Errorf("the other folder has %d files, and had %d", len(after), len(before))
			}
		})
	}
}

// otherFolder creates a folder with files of other contents under the names of an engine.
func otherFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{reserveName, pidName, "LOCK", "stator.synced"}
	for i := range 200 {
		names = append(names, fmt.Sprintf("%06d.sst", i), fmt.Sprintf("%06d.log", i))
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("another database"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return contents(t, dir)
}

// contents returns the files of a folder by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		b, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(b)
	}
	return files
}
