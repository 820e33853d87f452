package pebble

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A compaction whose caller has given up while it waited begins later. Pebble would panic if it
// had been told.
func TestCompactionBeginsAfterItsCallerHasGivenUp(t *testing.T) {
	e, release := openWithWaitingCompaction(t)
	e.reclaim.patience = 0
	if e.compactUntilSpace(t.Context()) || e.reclaim.from != nil || e.reclaim.skipped {
		t.Errorf("reclaim did not wait with its range: it continues at %q, and some are skipped: %v", e.reclaim.from, e.reclaim.skipped)
	}
	e.reclaim.patience = reclaimPatience
	release()
	soon(t, "the table is compacted to the last level", func() bool { return e.db.Metrics().Levels[0].TablesCount == 0 })
	if err := e.manual.compact(t.Context(), e.db, []byte("a"), []byte("z")); err != nil {
		t.Error("the next compaction: ", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// An engine can be closed while a compaction waits that nobody waits for.
func TestCloseBeforeACompactionBegins(t *testing.T) {
	e, release := openWithWaitingCompaction(t)
	e.manual.stop()
	release()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// openWithWaitingCompaction opens an engine with a compaction that waits until release is called,
// and whose caller has given up.
func openWithWaitingCompaction(t *testing.T) (e *Engine, release func()) {
	t.Helper()
	e = mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", DiskCheck: time.Hour, compactInterval: -1})
	if err := errors.Join(set(e, "k", []byte("1")), e.db.Flush()); err != nil {
		t.Fatal(err)
	}
	s := e.manual.scheduler
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running += n
	}
	const many = 100
	add(many)
	ctx, giveUp := context.WithCancel(t.Context())
	end := make(chan error)
	go func() { end <- e.compactRange(ctx, []byte("a"), []byte("z")) }()
	soon(t, "a compaction waits", func() bool {
		waiting, _ := s.db.GetWaitingCompaction()
		return waiting
	})
	giveUp()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that gave up got %v", err)
	}
	return e, func() {
		add(-many)
		s.offer()
	}
}
