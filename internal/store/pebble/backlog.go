package pebble

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// backlog is the work that Pebble has to do for writes that are done: memtables to flush,
// and tables of level 0 to compact. Beyond its own limits Pebble makes writes wait inside
// of a commit, where no context ends the wait, and all writes after them too. So writes wait
// here first, for a bounded time, and are rejected then; Pebble's limits are further away.
type backlog struct {
	metrics  func() *pebble.Metrics // nil until the database is open
	baseMax  uint64                 // Pebble's LBaseMaxBytes
	memBytes uint64                 // the limit of memtables
	levels   int32                  // the limit of sublevels of level 0
	patience time.Duration          // of a write

	isHard  atomic.Bool // writes that have waited, or did not need to, are rejected too
	isLast  atomic.Bool // and writes that free space
	mu      sync.Mutex
	cleared chan struct{} // closed when there is no backlog; nil if there is none
	reason  string
}

// load is what Pebble has to do.
type load struct {
	memBytes     uint64 // of memtables
	sublevels    int32  // of level 0
	compactBytes uint64 // that a compaction of level 0 reads at most, and writes, after a flush
	doneBytes    uint64 // that compactions in progress have written
	compacts     bool   // level 0 will be smaller soon
}

const (
	// maxMemtables is how many memtables, or their bytes, may wait to be flushed.
	maxMemtables = 4
	// maxSublevels is how many sublevels level 0 may have.
	maxSublevels = 12
	// compactSublevels is from how many sublevels on Pebble always compacts level 0.
	compactSublevels = 4
	// hardFactor is how much larger the limits are from which on writes do not even
	// wait. Writes that were admitted before there was a backlog reach them.
	hardFactor = 2
	// lastFactor is how much larger the limits are for writes that free space. They do
	// not wait: the backlog may be one that only they can reduce.
	lastFactor = 3
	// pebbleFactor is how much larger the limits of Pebble are.
	pebbleFactor = 4
)

// open sets what is measured.
func (b *backlog) open(metrics func() *pebble.Metrics, memtableBytes uint64, baseMaxBytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.metrics, b.memBytes, b.levels, b.baseMax = metrics, maxMemtables*memtableBytes, maxSublevels, uint64(baseMaxBytes)
}

// uncheckedBytes is how many bytes may be written between two checks.
func (b *backlog) uncheckedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memBytes == 0 {
		return math.MaxInt64
	}
	return int64(b.memBytes / maxMemtables / 4)
}

// measure returns what Pebble has to do, nothing until the database is open.
func (b *backlog) measure() (l load) {
	b.mu.Lock()
	metrics, baseMax := b.metrics, b.baseMax
	b.mu.Unlock()
	if metrics == nil {
		return l
	}
	m := metrics() // takes Pebble's mutex
	l.memBytes, l.sublevels = m.MemTable.Size, m.Levels[0].Sublevels
	l.doneBytes = uint64(max(0, m.Compact.InProgressBytes))
	l.compacts = l.sublevels >= compactSublevels || m.Compact.NumInProgress > 0
	var levels [numLevels]uint64
	for i := range levels {
		levels[i] = uint64(max(0, m.Levels[i].TablesSize))
	}
	if levels[0] += m.WAL.Size; levels[0] > 0 {
		l.compactBytes = levels[0] + baseLevelBytes(levels, baseMax)
	}
	return l
}

// baseLevelBytes returns the size of the level to which Pebble compacts level 0: the first
// that has tables, or one above it, which is empty, if that is too large for a first level.
func baseLevelBytes(levels [numLevels]uint64, baseMax uint64) uint64 {
	base, total := 0, uint64(0)
	for i := numLevels - 1; i >= 0; i-- {
		if total += levels[i]; levels[i] > 0 && i > 0 {
			base = i
		}
	}
	const multiplier = 10 // Pebble's default
	size := total - total/multiplier
	for range numLevels - 1 - base {
		size /= multiplier
	}
	if base == 0 || base > 1 && size > baseMax {
		return 0
	}
	return levels[base]
}

// check compares the load with the limits, and reports whether it is too large. It is too
// large as well if there is little space for the compaction of level 0 that is due.
func (b *backlog) check(l load, littleSpace bool) (behind bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reason = ""
	exceeds := func(factor uint64) bool {
		return b.metrics != nil && (l.memBytes > factor*b.memBytes || l.sublevels > int32(factor)*b.levels)
	}
	b.isHard.Store(exceeds(hardFactor))
	b.isLast.Store(exceeds(lastFactor))
	switch {
	case !exceeds(1) && littleSpace:
		b.reason = fmt.Sprintf("%d bytes of level 0 are compacted first, as there is little disk space", l.compactBytes)
	case !exceeds(1):
	case l.memBytes > b.memBytes:
		b.reason = fmt.Sprintf("%d bytes wait to be flushed", l.memBytes)
	default:
		b.reason = fmt.Sprintf("level 0 has %d sublevels to compact", l.sublevels)
	}
	if behind = b.reason != ""; behind && b.cleared == nil {
		b.cleared = make(chan struct{})
	} else if !behind && b.cleared != nil {
		close(b.cleared)
		b.cleared = nil
	}
	return behind
}

// wait waits until there is no backlog, but not for long.
func (b *backlog) wait(ctx context.Context) error {
	b.mu.Lock()
	cleared := b.cleared
	b.mu.Unlock()
	if cleared == nil {
		return nil
	}
	t := time.NewTimer(b.patience)
	defer t.Stop()
	select {
	case <-cleared:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return b.err()
	}
}

func (b *backlog) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%w: %s", store.ErrBehind, b.reason)
}
