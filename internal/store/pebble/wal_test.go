package pebble

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// When no new WAL file can be created, or its folder cannot be synced, the process exits with
// an error message. Pebble would panic while it holds its locks.
func TestFailedWALCreationExits(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(errorfs.Op) bool
	}{
		{"create", func(op errorfs.Op) bool {
			return (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) && strings.HasSuffix(op.Path, ".log")
		}},
		{"sync of the folder", func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && op.Path == "d" }},
		{"end of the previous WAL file", func(op errorfs.Op) bool {
			return (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var broken atomic.Bool
			fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
				if broken.Load() && c.fails(op) {
					return errorfs.ErrInjected
				}
				return nil
			})
			var log logtest.Log
			exited := make(chan int)
			// The engine cannot be closed after this, and is leaked.
			e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, Log: log.Logger(), exit: func(code int) {
				exited <- code
				select {}
			}})
			fill(t, e, 1)
			broken.Store(true)
			go func() { t.Errorf("the flush returns: %v", e.db.Flush()) }()
			select {
			case code := <-exited:
				if code == 0 || !strings.Contains(log.String(), "cannot continue") || !strings.Contains(log.String(), errorfs.ErrInjected.Error()) {
					t.Errorf("exit code %d, log %q", code, log.String())
				}
			case <-time.After(time.Minute):
				t.Error("nothing happens")
			}
		})
	}
}

// If a WAL file cannot be reused, a new one is created.
func TestNewWALFileIfReuseFails(t *testing.T) {
	var refused atomic.Int32
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if op.Kind == errorfs.OpReuseForWrite {
			refused.Add(1)
			return errorfs.ErrInjected
		}
		return nil
	})
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1})
	defer e.Close()
	for range 5 {
		fill(t, e, 1)
		if err := e.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if refused.Load() == 0 {
		t.Error("no WAL file was to be reused")
	}
}

// When there is no space for the WAL, or for a new WAL file, writes in progress wait, new
// writes are rejected and reads are served, until there is space.
func TestWALWaitsForSpace(t *testing.T) {
	for _, c := range []struct {
		name  string
		kinds []errorfs.OpKind
		flush bool
	}{
		{"write", []errorfs.OpKind{errorfs.OpFileWrite}, false},
		{"create", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2}) // as if all inodes are used
			var noSpace atomic.Bool
			fs := disktest.Inject(mem, func(op errorfs.Op) error {
				for _, k := range c.kinds {
					if noSpace.Load() && op.Kind == k && strings.HasSuffix(op.Path, ".log") {
						return syscall.ENOSPC
					}
				}
				return nil
			})
			e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, DiskCheck: time.Millisecond, exit: func(int) { t.Error("the process exits") }})
			defer e.Close()
			fill(t, e, 1)
			noSpace.Store(true)
			waited := make(chan error, 1)
			go func() {
				if c.flush {
					waited <- e.db.Flush()
				} else {
					waited <- set(e, "a", []byte("1"))
				}
			}()
			eventually(t, "writes are rejected", func() bool { return e.disk.is(isFull) })
			for range 20 { // also after checks of the free space
				if err := set(e, "b", []byte("1")); !errors.Is(err, store.ErrFull) {
					t.Errorf("a write without space: %v", err)
				}
				time.Sleep(time.Millisecond)
			}
			if v, err := e.Get(context.Background(), store.Strong, fillKey(0)); err != nil || len(v[0]) != fillSize {
				t.Errorf("a read without space: %x, %v", v, err)
			}
			noSpace.Store(false)
			if err := <-waited; err != nil {
				t.Errorf("the write that waited: %v", err)
			}
			eventually(t, "writes are accepted again", func() bool { return set(e, "a", []byte("1")) == nil })
		})
	}
}

// Open returns an error, and does not panic, when the folder cannot be synced.
func TestOpenFailsIfFolderCannotBeSynced(t *testing.T) {
	failed := 0
	for n := range 10 {
		syncs := 0
		fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync || op.Path != "d" {
				return nil
			}
			if syncs++; syncs-1 == n {
				return errorfs.ErrInjected
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() {
			e, err := Open(Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(int) {
				ended <- errorfs.ErrInjected // Pebble is open already, and creates a second WAL file
				select {}
			}})
			if err == nil {
				err = e.Close()
			}
			ended <- err
		}()
		if err := <-ended; errors.Is(err, errorfs.ErrInjected) {
			failed++
		} else if err != nil {
			t.Errorf("sync %d: %v", n, err)
		}
	}
	if failed == 0 {
		t.Error("no sync has failed")
	}
}
