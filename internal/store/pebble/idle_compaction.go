package pebble

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// idleCompaction compacts all levels of tables into one when little is written. A read of a
// large store looks into each level, of which there are four or five.
//
// A compaction writes the whole store again, so at least half as much must have been written
// since the last one: for each byte that is written, at most two are compacted.
type idleCompaction struct {
	interval   time.Duration // between two checks; never if negative
	minBytes   int64         // stores with fewer bytes of tables are not compacted
	rangeBytes uint64        // bytes that are compacted at once
	levels     func() []int64
	compact    func(ctx context.Context, bytes int64) (done bool) // retried later if not done

	written   atomic.Int64 // bytes, since the store was opened
	compacted int64        // how many of them were written before the last compaction
	from      []byte       // where to continue; nil for the beginning
}

const (
	// idleBytes is how many bytes may be written in an interval that counts as idle.
	idleBytes = 1 << 20
	// compactRangeBytes are compacted at once, in about a second.
	compactRangeBytes = 128 << 20
	// compactFreeBytes must be free: old and new tables exist at the same time.
	compactFreeBytes = 4 * compactRangeBytes
)

// wrote counts written bytes.
func (c *idleCompaction) wrote(bytes int) { c.written.Add(int64(bytes)) }

// run compacts whenever the store is idle and a compaction is due, until the context ends.
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
				c.compacted = now
			}
		}
		before = now
	}
}

// due returns the bytes of all tables, and whether to compact them. Tables above the last
// level were written since the last compaction, even if that was before the store was
// opened.
func (c *idleCompaction) due() (bytes int64, due bool) {
	var upper, last int64
	for _, level := range c.levels() {
		if level > 0 {
			upper, last = upper+last, level
		}
	}
	bytes = upper + last
	return bytes, upper > 0 && bytes >= c.minBytes && max(upper, c.written.Load()-c.compacted) >= bytes/2
}

// levelBytes returns the bytes of tables in each level.
func (e *Engine) levelBytes() []int64 {
	m := e.db.Metrics()
	bytes := make([]int64, len(m.Levels))
	for i := range m.Levels {
		bytes[i] = m.Levels[i].TablesSize
	}
	return bytes
}

func sum(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// compact compacts all levels, range by range. It stops between two ranges when the store is
// no longer idle, and continues there the next time: starting over each time, a store with
// occasional writes would never finish.
func (e *Engine) compact(ctx context.Context, bytes int64) (done bool) {
	began, written := time.Now(), e.compaction.written.Load()
	mayCompact := func(bytes uint64) bool {
		return ctx.Err() == nil && e.compaction.written.Load()-written <= idleBytes && e.disk.hasSpace(compactFreeBytes+bytes)
	}
	if !mayCompact(0) {
		return false
	}
	from, end := bounds(e.compaction.from, nil)
	splits, err := e.compactRanges(ctx, from, end)
	if err != nil {
		return false // the store is being closed, or cannot be read, which readers notice
	}
	cached := e.db.Metrics().BlockCache.Size >= bytes/2
	for _, to := range append(splits, end) {
		size, err := e.db.EstimateDiskUsage(from, to) // a large partition is one range
		if err != nil || !mayCompact(size) {
			return false
		}
		err = e.manual.compact(ctx, e.db, from, to)
		if err == nil && cached { // the blocks of the old tables have left the cache
			err = e.warmCache(ctx, from, to)
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			e.log.Error("compaction failed", "error", err)
			break // a retry would fail again, after reading it all
		}
		from, e.compaction.from = to, to
	}
	e.compaction.from = nil
	if string(from) == string(end) {
		e.log.Info("compacted all levels while idle", "bytes", bytes, "took", time.Since(began).Round(time.Millisecond))
	}
	return true
}

// compactRanges returns the keys at which to cut a range for compaction.
func (e *Engine) compactRanges(ctx context.Context, start, end []byte) ([][]byte, error) {
	bytes, err := e.db.EstimateDiskUsage(start, end)
	if err != nil {
		return nil, err
	}
	return e.splits(ctx, start, end, int(bytes/e.compaction.rangeBytes)+1)
}

// warmCache reads a range, so that its blocks are cached.
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
