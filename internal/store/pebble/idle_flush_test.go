package pebble

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/virtualtime"
)

func TestFlushWhenIdle(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var flushes atomic.Int64
		var fail atomic.Bool
		f := newIdleFlush(300*time.Millisecond, func(context.Context) bool {
			flushes.Add(1)
			return !fail.Load()
		})
		stop := background(f.run)
		expect := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := flushes.Load(); got != want {
				t.Errorf("%s: %d flushes, want %d", when, got, want)
			}
		}
		time.Sleep(time.Hour)
		expect("without writes", 0)
		for range 10 {
			f.wrote()
			time.Sleep(200 * time.Millisecond)
		}
		expect("while there are writes", 0)
		time.Sleep(time.Second)
		expect("after the writes", 1)
		if f.dirty() {
			t.Error("dirty after a flush")
		}
		time.Sleep(time.Hour)
		expect("much later", 1)

		fail.Store(true)
		f.wrote()
		time.Sleep(750 * time.Millisecond)
		expect("while it fails", 3)
		fail.Store(false)
		time.Sleep(time.Hour)
		expect("when it succeeds again", 4)
		stop()
	})
}

func TestIdleEngineFlushes(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: time.Millisecond})
	defer e.Close()
	before := e.db.Metrics().Flush.Count
	fill(t, e, 1)
	eventually(t, "a flush", func() bool { return e.db.Metrics().Flush.Count > before })
}

// background runs a function until stop is called, which waits for its end.
func background(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}
