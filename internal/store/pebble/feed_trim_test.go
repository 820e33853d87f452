package pebble

import (
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// The removal of changes that a standby has does not take more with each removal before it, while no
// memtable is flushed: on a server with some writes a second, there are thousands until then.
func TestManyRemovalsOfChanges(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1})
	defer func() { _ = e.Close() }()
	snap, from, _, err := e.Attach(t.Context(), "slot")
	if err != nil || snap.Close() != nil {
		t.Fatal(err)
	}
	remove := func() (allocated uint64) {
		t.Helper()
		if err := set(e, "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
		e.feed.mu.Lock()
		e.feed.trimmed = time.Time{} // long ago
		e.feed.mu.Unlock()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, from, _, err = e.Changes(t.Context(), "slot", from, 1<<20, 0); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for range 300 {
		remove()
	}
	const most = 512 << 10
	if n := remove(); n > most {
		t.Errorf("the last removal takes %d bytes of memory, want %d at most", n, most)
	}
	if err := e.eachRecord(0, from-1, func(store.Stamp, []byte) bool {
		t.Error("a change that the standby has is kept")
		return false
	}); err != nil {
		t.Error(err)
	}
}
