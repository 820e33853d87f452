package pebble

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A load that waits for Pebble pauses between its attempts, and ends when its context does.
func TestLoadPauses(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := &Engine{disk: newDisk(Options{FS: vfs.NewMem(), Dir: "d"}.withDefaults())}
		var attempts atomic.Int64
		e.disk.backlog.open(func() *pebble.Metrics {
			attempts.Add(1)
			m := new(pebble.Metrics)
			m.Levels[0].Sublevels = lastFactor*maxSublevels + 1
			return m
		}, 64<<20, 64<<20)
		e.disk.maxBytes.Store(0) // the first attempt measures, as the later ones do
		// A write that frees space is rejected at once, without waiting.
		ctx, cancel := context.WithCancel(store.Freeing(t.Context()))
		ended := make(chan error)
		go func() { ended <- e.admitLoad(ctx, 1<<30) }()
		time.Sleep(10 * time.Second)
		if n := attempts.Load(); n < 2 || n > 1000 {
			t.Errorf("%d attempts within 10 seconds", n)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("admitLoad: %v", err)
		}
	})
}
