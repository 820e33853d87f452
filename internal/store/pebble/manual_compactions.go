package pebble

import (
	"context"
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// manualCompactions compacts ranges, one at a time.
//
// Pebble must not be told that a caller has given up while compactions can begin: it forgets the
// compaction, but not that it is the next one to begin, and then panics (v2.1.7). So the call
// goes on without its caller, and the next one waits for it.
type manualCompactions struct {
	scheduler *compactionScheduler
	turn      chan struct{} // has room for the one that compacts
	ctx       context.Context
	cancel    context.CancelFunc
	calls     sync.WaitGroup
}

func newManualCompactions(s *compactionScheduler) *manualCompactions {
	ctx, cancel := context.WithCancel(context.Background())
	return &manualCompactions{scheduler: s, turn: make(chan struct{}, 1), ctx: ctx, cancel: cancel}
}

// errOtherCompaction is the error of a caller that gave up before its turn.
var errOtherCompaction = errors.New("another range is being compacted")

// compact compacts a range of keys. If the context ends before its turn, it returns
// errOtherCompaction; if it ends afterwards, the compaction goes on.
func (m *manualCompactions) compact(ctx context.Context, db *pebble.DB, start, end []byte) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return errOtherCompaction
	}
	done := make(chan error, 1)
	m.calls.Go(func() {
		err := db.Compact(m.ctx, start, end, false)
		<-m.turn
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends all calls. A compaction that waits does not begin any more.
func (m *manualCompactions) stop() {
	m.scheduler.end()
	m.cancel()
	m.calls.Wait()
}
