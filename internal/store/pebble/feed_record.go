package pebble

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/stator-db/stator/internal/store"
)

// isStandbyRecord reports whether a key and its value are a record of a feed or of a standby.
func isStandbyRecord(key, value []byte) bool {
	switch {
	case len(key) == feedKeyBytes && key[1] == 'f':
		return decodeEdits(value, func(byte, []byte, []byte) error { return nil }) == nil
	case bytes.Equal(key, slotKey):
		return len(value) > 8
	case bytes.Equal(key, runsKey):
		_, err := decodeRuns(value)
		return err == nil
	}
	return bytes.Equal(key, standbyKey) || bytes.Equal(key, branchKey)
}

// record adds to the batch of a stamp a record of what it writes.
func (e *Engine) record(batch *pebble.Batch, stamp store.Stamp) error {
	size := 0
	eachEdit(batch.Reader(), func(kind byte, key, value []byte) { size += editBytes(kind, key, value) })
	written := batch.Reader() // it stays valid while the batch grows
	op := batch.SetDeferred(feedKeyBytes, size)
	copy(op.Key, feedKey(stamp))
	edits := op.Value[:0]
	eachEdit(written, func(kind byte, key, value []byte) { edits = appendEdit(edits, kind, key, value) })
	if err := op.Finish(); err != nil {
		return err
	}
	if e.feed.bytes.Add(recordBytes(edits)) > e.feed.limit.Load() || e.disk.hasLittle(dropReserves) {
		signal(e.feed.exceeded)
	}
	return nil
}

// forget takes back that a record was added: its batch is not written.
func (f *feed) forget(batch batchrepr.Reader) {
	for {
		_, key, value, ok, err := batch.Next()
		if !ok || err != nil {
			return
		}
		if len(key) == feedKeyBytes && key[0] == store.Reserved && key[1] == 'f' {
			f.bytes.Add(-recordBytes(value))
		}
	}
}

// recordBytes is the size of a record.
func recordBytes(edits []byte) int64 { return int64(len(edits)) + 32 }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// recordedDelete is a DeleteRange that is being recorded. Latches do not order it with
// Updates, so its stamp does: Updates with smaller stamps are applied before it, and those
// with larger ones after it, as on the standby.
type recordedDelete struct {
	begun chan struct{} // closed once it has a stamp
	stamp store.Stamp
	ended chan struct{} // closed once it is applied, or will never be
}

// waitForDelete waits, before an Update is applied, for a recorded DeleteRange with a
// smaller stamp. That waits only for smaller stamps itself, so the two cannot deadlock.
func (f *feed) waitForDelete(ctx context.Context, stamp store.Stamp) error {
	d := f.deleting.Load()
	if d == nil {
		return nil
	}
	<-d.begun
	if stamp < d.stamp {
		return nil
	}
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deleteRecorded is DeleteRange with a record of it. The caller holds deleting.
func (e *Engine) deleteRecorded(ctx context.Context, lower, upper []byte) error {
	d := &recordedDelete{begun: make(chan struct{}), ended: make(chan struct{})}
	e.feed.deleting.Store(d) // before Begin: all Updates with a larger stamp see it
	stamp := e.inFlight.Begin(store.StampAt(e.now()))
	d.stamp = stamp
	close(d.begun)
	defer func() {
		e.feed.deleting.Store(nil)
		close(d.ended)
		e.inFlight.End(stamp)
		signal(e.feed.added)
	}()
	if err := e.inFlight.WaitDurable(ctx, stamp-1); err != nil {
		return err
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err := batch.DeleteRange(lower, upper, nil)
	if err == nil {
		err = e.record(batch, stamp)
	}
	if err == nil {
		err = e.recordWindow(batch, stamp)
	}
	if err == nil {
		err = batch.Commit(e.sync())
	}
	if err != nil {
		return failure("delete range", err)
	}
	e.windows.Recorded(stamp)
	return nil
}

// countRecords adds once the size of the records that an earlier process has left, or removes
// them if they are of no use. The caller holds mu.
func (e *Engine) countRecords(ctx context.Context) error {
	if e.feed.counted {
		return nil
	}
	kept := int64(0)
	err := e.eachRecord(0, e.feed.run.begin, func(_ store.Stamp, edits []byte) bool {
		kept += recordBytes(edits)
		return ctx.Err() == nil && e.feed.slot != "" // without a slot, one suffices
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if kept > e.feed.maxBytes { // the standby has not caught up after its copy
		e.raiseLimit()
	}
	e.feed.bytes.Add(kept)
	e.feed.counted = true
	if kept > 0 && e.feed.slot == "" {
		return e.detach(ctx)
	}
	return nil
}

// feedBytes is the size of the records of [from, to).
func (e *Engine) feedBytes(from, to store.Stamp) (bytes int64, err error) {
	err = e.eachRecord(from, to, func(_ store.Stamp, edits []byte) bool {
		bytes += recordBytes(edits)
		return true
	})
	return bytes, err
}

// eachRecord calls fn with the records of [from, to), in order, until it returns false.
func (e *Engine) eachRecord(from, to store.Stamp, fn func(stamp store.Stamp, edits []byte) bool) error {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: feedKey(from), UpperBound: feedKey(to)})
	if err != nil {
		return failure("read changes", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			_ = it.Close()
			return failure("read changes", err)
		}
		if !fn(store.Stamp(binary.BigEndian.Uint64(it.Key()[2:])), value) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return failure("read changes", err)
	}
	return nil
}
