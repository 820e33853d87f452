package pebble

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// After a failed write to the WAL it is unknown what is on disk: the process exits, and the
// Update does not return.
func TestFailedWALWriteExits(t *testing.T) {
	for flushes, name := range map[int]string{0: "new WAL file", 3: "reused WAL file"} {
		t.Run(name, func(t *testing.T) {
			t.Run("write", func(t *testing.T) { breakWAL(t, flushes, errorfs.OpFileWrite) })
			t.Run("sync", func(t *testing.T) { breakWAL(t, flushes, errorfs.OpFileSync, errorfs.OpFileSyncData) })
		})
	}
}

func breakWAL(t *testing.T, flushes int, kinds ...errorfs.OpKind) {
	var broken atomic.Bool
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		for _, k := range kinds {
			if broken.Load() && op.Kind == k && strings.HasSuffix(op.Path, ".log") {
				return errorfs.ErrInjected
			}
		}
		return nil
	})
	exited := make(chan int)
	// The engine cannot be closed after this, and is leaked.
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) {
		exited <- code
		select {}
	}})
	for range flushes { // so that the WAL file is reused
		fill(t, e, 1)
		if err := e.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	broken.Store(true)
	returned := make(chan error, 1)
	go func() { returned <- set(e, "a", []byte("1")) }()
	select {
	case code := <-exited:
		if code == 0 {
			t.Error("exit code 0")
		}
	case err := <-returned:
		t.Errorf("Update returned %v", err)
	case <-time.After(time.Minute):
		t.Error("nothing happens")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if v, err := e.Get(ctx, store.Strong, []byte("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the write is visible: %q, %v", v, err)
	}
}

// When the first writes of Open fail, the process exits instead of waiting for ever.
func TestOpenExitsWhenItCannotWrite(t *testing.T) {
	mem := disktest.NewCrashable()
	e := mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: -1})
	if err := set(e, "a", []byte("1")); err != nil { // which the next Open flushes
		t.Fatal(err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	fs := disktest.Inject(crashed, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	})
	exited := make(chan int)
	go func() {
		e, err := Open(Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) {
			exited <- code
			select {}
		}})
		t.Errorf("Open returned: %v, %v", e, err)
	}()
	select {
	case code := <-exited:
		if code == 0 {
			t.Error("exit code 0")
		}
	case <-time.After(time.Minute):
		t.Error("nothing happens")
	}
}
