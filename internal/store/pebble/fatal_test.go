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
)

// When a write to the log goes wrong, nobody knows what is on disk: the
// process ends, and the Update does not return as if all were well.
func TestLogThatCannotBeWrittenEndsTheProcess(t *testing.T) {
	for flushes, name := range map[int]string{0: "new log", 3: "reused log"} {
		t.Run(name, func(t *testing.T) {
			t.Run("write", func(t *testing.T) { breakLog(t, flushes, errorfs.OpFileWrite) })
			t.Run("sync", func(t *testing.T) { breakLog(t, flushes, errorfs.OpFileSync, errorfs.OpFileSyncData) })
		})
	}
}

func breakLog(t *testing.T, flushes int, kinds ...errorfs.OpKind) {
	var broken atomic.Bool
	fs := inject(vfs.NewMem(), func(op errorfs.Op) error {
		for _, k := range kinds {
			if broken.Load() && op.Kind == k && strings.HasSuffix(op.Path, ".log") {
				return errorfs.ErrInjected
			}
		}
		return nil
	})
	exited := make(chan int)
	// The engine cannot be closed after this, and is left behind.
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, exit: func(code int) {
		exited <- code
		select {}
	}})
	for range flushes { // the log is one that was used before
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
	case <-time.After(10 * time.Second):
		t.Error("nothing happens")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if v, err := e.Get(ctx, store.Strong, []byte("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the write is shown: %q, %v", v, err)
	}
}

// A start that has to write what it cannot write ends, and does not wait for
// ever.
func TestOpenEndsWhenItCannotWrite(t *testing.T) {
	fs := inject(vfs.NewMem(), func(op errorfs.Op) error {
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
		t.Errorf("it opens: %v, %v", e, err)
	}()
	select {
	case code := <-exited:
		if code == 0 {
			t.Error("exit code 0")
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing happens")
	}
}

// inject has a function decide about each operation of a file system. It
// closes a gap of errorfs, which lets go of a log that is used again.
func inject(fs vfs.FS, decide func(errorfs.Op) error) vfs.FS {
	return &injected{errorfs.Wrap(fs, errorfs.InjectorFunc(decide)), decide}
}

type injected struct {
	vfs.FS
	decide func(errorfs.Op) error
}

func (i *injected) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := i.FS.ReuseForWrite(before, name, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = name
		return i.decide(op)
	})), nil
}
