package pebble

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/stator-db/stator/internal/store"
)

// reclaim gets space back while the disk is full: that of deleted values, which compactions
// remove. Pebble compacts when it has to, which may be much later.
type reclaim struct {
	patience time.Duration // how long it waits for the compaction of a range

	deletes atomic.Uint64 // keys that were written on a full disk, which accepts deletes only
	begun   uint64        // how many of them there were when the first range was compacted
	done    uint64        // how many of them are in ranges that are compacted
	from    []byte        // where to continue; nil for the beginning
	skipped bool          // a range that could not be compacted
	covered uint64        // how many of them there were when a layer was written above them
}

// runReclaim compacts while the disk is full and something was deleted, until the context
// ends.
func (e *Engine) runReclaim(ctx context.Context) {
	tick := time.NewTicker(e.disk.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r := &e.reclaim
		deletes := r.deletes.Load()
		if !e.disk.is(isFull) || deletes == r.done {
			continue
		}
		if r.skipped && deletes == r.begun && e.disk.compacts.pausing() {
			continue // the ranges that are left would be skipped again
		}
		if r.from == nil {
			r.begun, r.skipped = deletes, false
		}
		if e.flush(ctx) && e.compactUntilSpace(ctx) && !r.skipped {
			r.done = r.begun
		}
	}
}

// reclaimRanges is the largest number of ranges that are compacted one by one.
const reclaimRanges = 1000

// compactUntilSpace compacts range by range, until the disk is not full. It reports whether
// all ranges are compacted.
func (e *Engine) compactUntilSpace(ctx context.Context) (all bool) {
	from, end := bounds(e.reclaim.from, nil)
	bytes, err := e.db.EstimateDiskUsage(from, end)
	if err != nil {
		return false
	}
	// Old and new tables exist at the same time.
	n := min(bytes/max(1, e.disk.reserve.Load()/8)+1, reclaimRanges)
	splits, err := e.splits(ctx, from, end, int(n))
	if err != nil {
		return false
	}
	for _, to := range append(splits, end) {
		if ctx.Err() != nil || !e.disk.canCompact() {
			return false
		}
		// A range for which there is no space, or which has to wait for Pebble's own
		// compactions, is left out: others may free some. It may be compacted later.
		deletes := e.reclaim.deletes.Load()
		if err := e.compactRange(ctx, from, to); err != nil {
			e.coverDeletes(ctx, deletes)
			if errors.Is(err, errOtherCompaction) {
				return false // it continues with this range
			}
			e.reclaim.skipped = true
		}
		from, e.reclaim.from = to, to
		if e.disk.check(); !e.disk.is(isFull) {
			return false // it continues when the disk is full again
		}
	}
	e.reclaim.from = nil
	return true
}

// rangeDeletes is what the delete of a range counts for.
const rangeDeletes = 1000

// reclaimPatience is the patience of reclaim. After a failure Pebble does not compact that
// range for a while.
const reclaimPatience = 10 * time.Second

// compactRange compacts one range. It waits for that as long as reclaim's patience.
func (e *Engine) compactRange(ctx context.Context, from, to []byte) error {
	ctx, cancel := context.WithTimeout(ctx, e.reclaim.patience)
	defer cancel()
	err := e.manual.compact(ctx, e.db, from, to)
	if err != nil && ctx.Err() == nil {
		e.disk.failures.failed(err)
		e.disk.failures.wait()
	}
	return err
}

// coverDeletes writes a layer of tables above those of level 0. It is called after a range
// could not be compacted. If there were more deletes meanwhile, they are such a layer.
//
// Pebble's own compactions of level 0 come before those that it is asked for, and one that
// fails is mostly repeated at once. It reads the tables above some key, and all that lie below
// those: most layers as a whole, but one table of the newest layer. So it leaves out most
// deletes of that layer, and does not fit into the free space without them. It does not leave
// them out if there is another layer above.
func (e *Engine) coverDeletes(ctx context.Context, deletes uint64) {
	r := &e.reclaim
	if deletes != r.deletes.Load() || !r.mayCover(deletes, e.db.Metrics().Levels[0].Sublevels) {
		return
	}
	if !e.flush(ctx) || e.coverLevelZero() != nil || !e.flush(ctx) {
		return
	}
	r.covered = deletes
	e.disk.compacts.reset()
}

// mayCover reports whether a layer may be written above so many sublevels. A few deletes at a
// time, each with a layer above, free nothing, and must not take all the sublevels that many
// deletes need later. A layer and the flush before it are two sublevels; with more than
// lastFactor allows, deletes would be rejected.
func (r *reclaim) mayCover(deletes uint64, sublevels int32) bool {
	switch {
	case deletes == r.covered || sublevels > lastFactor*maxSublevels-2:
		return false
	case sublevels >= hardFactor*maxSublevels:
		return deletes >= 2*r.covered+100
	}
	return true
}

// coverLevelZero writes a table that spans the tables of level 0, or some side by side, without
// those of reserved keys. It deletes a range of range keys, of which there are none. Compactions
// carry that delete as far as there are tables below. The delete of a key, even one that
// does not exist, could hide that of an Update that writes it at the same time: latches are
// only of declared keys.
func (e *Engine) coverLevelZero() error {
	levels, err := e.db.SSTables()
	if err != nil {
		return err
	}
	start, end := []byte{store.Reserved}, []byte{}
	for _, table := range levels[0] {
		start = slices.MinFunc([][]byte{start, table.Smallest.UserKey}, bytes.Compare)
		end = slices.MaxFunc([][]byte{end, table.Largest.UserKey}, bytes.Compare)
	}
	end = slices.MinFunc([][]byte{end, {store.Reserved}}, bytes.Compare)
	if bytes.Compare(start, end) >= 0 {
		return nil
	}
	return e.db.RangeKeyDelete(start, end, pebble.NoSync)
}

// removeObsoleteWALs removes the WAL files that Pebble keeps for reuse. Pebble creates new
// ones when it does not find them.
//
// The folder is listed before Pebble reports how many files it needs, which are those with
// the largest numbers. Pebble counts a new file only once its folder is synced, and creates
// one at a time; so one more is kept. Files from before the database was opened are left to
// Pebble.
func (e *Engine) removeObsoleteWALs(fs vfs.FS, dir string, newest wal.NumWAL) {
	names, err := fs.List(dir)
	if err != nil {
		return
	}
	var found []wal.NumWAL
	byNumber := make(map[wal.NumWAL]string)
	for _, name := range names {
		if n, _, ok := wal.ParseLogFilename(name); ok && n > newest {
			found = append(found, n)
			byNumber[n] = name
		}
	}
	slices.Sort(found)
	needed := int(e.db.Metrics().WAL.Files) + 1
	for _, n := range found[:max(0, len(found)-needed)] {
		_ = fs.Remove(fs.PathJoin(dir, byNumber[n]))
	}
}

// newestWAL returns the largest number of a WAL file in a folder.
func newestWAL(fs vfs.FS, dir string) (newest wal.NumWAL) {
	names, _ := fs.List(dir)
	for _, name := range names {
		if n, _, ok := wal.ParseLogFilename(name); ok {
			newest = max(newest, n)
		}
	}
	return newest
}
