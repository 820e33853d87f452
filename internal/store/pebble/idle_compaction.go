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
type idleCompaction struct {
	interval   time.Duration // it looks so often; never if negative
	minBytes   int64         // bytes of tables that are worth it
	rangeBytes uint64        // bytes that are merged at once
	levels     func() []int64
	compact    func(ctx context.Context, bytes int64) (over bool) // tried again later if not over

	written atomic.Int64 // bytes, since the store was opened
	merged  int64        // of these, those that came before the last time
	from    []byte       // where the next piece begins; nil before the first
}

const (
	// idleBytes are little for the time between two looks.
	idleBytes = 1 << 20
	// compactRangeBytes are merged at once, in about a second.
	compactRangeBytes = 128 << 20
	// compactFreeBytes must be free, as a piece is there twice before it is once.
	compactFreeBytes = 4 * compactRangeBytes
)

// wrote counts what was written.
func (c *idleCompaction) wrote(bytes int) { c.written.Add(int64(bytes)) }

// run looks from time to time whether it is quiet and there is something to merge.
func (c *idleCompaction) run(ctx context.Context) {
	if c.interval < 0 {
		return
	}
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	before := c.written.Load()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := c.written.Load()
		if now-before <= idleBytes {
			if bytes, due := c.due(); due && c.compact(ctx, bytes) {
				c.merged = now
			}
		}
		before = now
	}
}

// due tells how many bytes of tables there are, and whether to merge them. What
// is not in the last level was written since they were merged, even if that was
// before the store was opened.
func (c *idleCompaction) due() (bytes int64, due bool) {
	var upper, last int64
	for _, level := range c.levels() {
		if level > 0 {
			upper, last = upper+last, level
		}
	}
	bytes = upper + last
	return bytes, upper > 0 && bytes >= c.minBytes && max(upper, c.written.Load()-c.merged) >= bytes/2
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
func (e *Engine) compact(ctx context.Context, bytes int64) (over bool) {
	began, written := time.Now(), e.compaction.written.Load()
	may := func(bytes uint64) bool {
		return ctx.Err() == nil && e.compaction.written.Load()-written <= idleBytes && e.disk.has(compactFreeBytes+bytes)
	}
	if !may(0) {
		return false
	}
	from, end := bounds(e.compaction.from, nil)
	splits, err := e.compactRanges(ctx, from, end)
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
			err = e.warmCache(ctx, from, to)
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			e.log.Error("tables were not merged", "error", err)
			break // it would fail again, and read it all before
		}
		from, e.compaction.from = to, to
	}
	e.compaction.from = nil
	if string(from) == string(end) {
		e.log.Info("tables were merged for faster reads", "bytes", bytes, "took", time.Since(began).Round(time.Millisecond))
	}
	return true
}

// pieces cuts a range.
func (e *Engine) compactRanges(ctx context.Context, start, end []byte) ([][]byte, error) {
	bytes, err := e.db.EstimateDiskUsage(start, end)
	if err != nil {
		return nil, err
	}
	return e.splits(ctx, start, end, int(bytes/e.compaction.rangeBytes)+1)
}

// touch reads a range, so that the cache holds it.
func (e *Engine) warmCache(ctx context.Context, start, end []byte) error {
	it, err := e.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && ctx.Err() == nil; {
		ok = it.Next()
	}
	return it.Close()
}
