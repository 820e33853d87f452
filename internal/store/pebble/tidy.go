package pebble

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// tidy has all levels of tables merged into one when little is written. Who reads
// a large store looks into each level, of which there are four or five.
//
// That writes as much again as there is, so at least half as much must have been
// written since the last time: for each byte that is written, two are merged at most.
type tidy struct {
	every  time.Duration // it looks so often; never if negative
	least  int64         // bytes of tables that are worth it
	piece  uint64        // bytes that are merged at once
	levels func() []int64
	merge  func(ctx context.Context, bytes int64) (over bool) // tried again later if not over

	written atomic.Int64 // bytes, since the store was opened
	merged  int64        // of these, those that came before the last time
	from    []byte       // where the next piece begins; nil before the first
}

const (
	// quietBytes are little for the time between two looks.
	quietBytes = 1 << 20
	// pieceBytes are merged at once, in about a second.
	pieceBytes = 128 << 20
	// pieceSpace must be free, as a piece is there twice before it is once.
	pieceSpace = 4 * pieceBytes
)

// wrote counts what was written.
func (t *tidy) wrote(bytes int) { t.written.Add(int64(bytes)) }

// run looks from time to time whether it is quiet and there is something to merge.
func (t *tidy) run(ctx context.Context) {
	if t.every < 0 {
		return
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	before := t.written.Load()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := t.written.Load()
		if now-before <= quietBytes {
			if bytes, due := t.due(); due && t.merge(ctx, bytes) {
				t.merged = now
			}
		}
		before = now
	}
}

// due tells how many bytes of tables there are, and whether to merge them. What
// is not in the last level was written since they were merged, even if that was
// before the store was opened.
func (t *tidy) due() (bytes int64, due bool) {
	var upper, last int64
	for _, level := range t.levels() {
		if level > 0 {
			upper, last = upper+last, level
		}
	}
	bytes = upper + last
	return bytes, upper > 0 && bytes >= t.least && max(upper, t.written.Load()-t.merged) >= bytes/2
}

// levelBytes are the bytes of tables in each level.
func (e *Engine) levelBytes() []int64 {
	m := e.db.Metrics()
	bytes := make([]int64, len(m.Levels))
	for i := range m.Levels {
		bytes[i] = m.Levels[i].TablesSize
	}
	return bytes
}

// merge merges all levels piece by piece. It ends before the next one when it is
// not quiet any more, and goes on there the next time: from the beginning, who is
// written to now and then would be merged for ever.
func (e *Engine) merge(ctx context.Context, bytes int64) (over bool) {
	began, written := time.Now(), e.tidy.written.Load()
	may := func(bytes uint64) bool {
		return ctx.Err() == nil && e.tidy.written.Load()-written <= quietBytes && e.disk.has(pieceSpace+bytes)
	}
	if !may(0) {
		return false
	}
	from, end := bounds(e.tidy.from, nil)
	splits, err := e.pieces(ctx, from, end)
	if err != nil {
		return false // it is being closed, or cannot be read, which readers are told
	}
	cached := e.db.Metrics().BlockCache.Size >= bytes/2
	for _, to := range append(splits, end) {
		size, err := e.db.EstimateDiskUsage(from, to) // a large partition is one piece
		if err != nil || !may(size) {
			return false
		}
		err = e.db.Compact(ctx, from, to, false)
		if err == nil && cached { // blocks have left the cache with their tables
			err = e.touch(ctx, from, to)
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			e.log.Error("tables were not merged", "error", err)
			break // it would fail again, and read it all before
		}
		from, e.tidy.from = to, to
	}
	e.tidy.from = nil
	if string(from) == string(end) {
		e.log.Info("tables were merged for faster reads", "bytes", bytes, "took", time.Since(began).Round(time.Millisecond))
	}
	return true
}

// pieces cuts a range.
func (e *Engine) pieces(ctx context.Context, start, end []byte) ([][]byte, error) {
	bytes, err := e.db.EstimateDiskUsage(start, end)
	if err != nil {
		return nil, err
	}
	return e.splits(ctx, start, end, int(bytes/e.tidy.piece)+1)
}

// touch reads a range, so that the cache holds it.
func (e *Engine) touch(ctx context.Context, start, end []byte) error {
	it, err := e.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && ctx.Err() == nil; {
		ok = it.Next()
	}
	return it.Close()
}
