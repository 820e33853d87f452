package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// A copy is loaded however far Pebble is behind.
func TestLoadWaitsForPebble(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), memtableBytes: 64 << 10, DiskCheck: 10 * time.Millisecond})
	defer func() { _ = e.Close() }()
	const n = 2000
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 20_000)
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	err := e.Load(t.Context(), func(yield func(store.Pair, error) bool) {
		for i := range n {
			if !yield(store.Pair{Key: fmt.Appendf(nil, "%08d", i*7919%n), Value: value}, nil) {
				return
			}
		}
	}, 1, func(bool) []byte { return []byte("state") })
	if err != nil {
		t.Fatal(err)
	}
	if got := len(pairs(t, e)); got != n {
		t.Errorf("%d pairs, want %d", got, n)
	}
}

// A copy that is loaded is not given up because Pebble is behind at its end.
func TestLoadWaitsForPebbleAtItsEnd(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), DiskCheck: time.Hour})
	defer func() { _ = e.Close() }()
	var behind atomic.Bool
	e.disk.backlog.open(func() *pebble.Metrics {
		m := new(pebble.Metrics)
		if behind.Load() {
			m.Levels[0].Sublevels = maxSublevels + 1
		}
		return m
	}, 64<<20, 64<<20)
	err := e.Load(t.Context(), func(yield func(store.Pair, error) bool) {
		yield(store.Pair{Key: []byte("a"), Value: []byte("b")}, nil)
	}, 1, func(complete bool) []byte {
		if !complete {
			return []byte("unfinished")
		}
		behind.Store(true)
		e.disk.check()
		time.AfterFunc(e.disk.backlog.patience*3/2, func() { // when the first attempt has ended
			behind.Store(false)
			e.disk.check()
		})
		return []byte("state")
	})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := e.StandbyState(); err != nil || string(state) != "state" {
		t.Errorf("the state is %q, %v", state, err)
	}
}
