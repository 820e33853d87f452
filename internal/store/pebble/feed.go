package pebble

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

// A feed lets another engine, the standby's, follow this one. While a slot exists, the
// batch of each Update carries a record of what it writes, under its stamp. The standby
// reads the records in the order of their stamps, up to the horizon, so it has at every
// moment a prefix of the commits. Records that it has are removed.
//
// Updates return in any order, so one that has returned is not before the horizon yet while one
// with a smaller stamp is in flight. Whether the standby has everything is therefore a
// comparison with Returned.

// feed is the state of an engine that can be followed.
type feed struct {
	on       atomic.Bool   // Updates add records
	bytes    atomic.Int64  // of the records, approximately
	maxBytes int64         // bounds them, except during a copy
	limit    atomic.Int64  // bounds them now
	exceeded chan struct{} // wakes run: the limit is exceeded
	removed  chan struct{} // wakes run: a slot and its records were removed
	added    chan struct{} // wakes a reader

	markFormat func() error         // keeps versions out that do not know feeds
	hasFormat  func() (bool, error) // reports whether that was done

	deleting atomic.Pointer[recordedDelete] // the DeleteRange that is being recorded; nil if none is

	run     runStart   // this one
	earlier []runStart // the runs before, as recorded

	attached atomic.Pointer[Attachment] // the slot as it was last; nil if there is none

	// The rest is guarded by mu, which is held while the slot is changed and read for, also
	// over I/O.
	mu       sync.Mutex
	counted  bool        // bytes has the records of earlier processes
	slot     string      // empty if there is none
	from     store.Stamp // records of smaller stamps are removed
	trimmed  time.Time   // when that was last done
	lastRead time.Time   // by the standby
	fresh    commit.Freshness
	acked    sentChanges // to the stamp before which the standby has all: the size of the records from f.from to it
	sent     sentChanges // the newest, with the size of its records
}

// sentChanges is what the standby was sent.
type sentChanges struct {
	to    store.Stamp
	bytes int64
}

// ErrNoSlot is returned to a standby whose slot does not exist any more: it needs a new
// copy.
var ErrNoSlot = errors.New("the server does not keep the changes for this standby any more")

// ErrNoSpace is returned to a standby whose changes would soon fill the disk.
var ErrNoSpace = errors.New("the server's disk is almost full, so it cannot keep changes for a standby")

// ErrNotDurable is returned for an engine that may lose what a standby has.
var ErrNotDurable = errors.New("a server with relaxed durability, or in memory, cannot have a standby: after a crash the standby would have writes that the server has lost")

// defaultFeedBytes bounds the records that are kept for a standby.
const defaultFeedBytes = 1 << 30

// A slot is dropped when the free space is less than dropReserves quarters of the disk's
// reserve, before writes are rejected. None is made with less than attachReserves quarters.
const (
	dropReserves   = 6
	attachReserves = 8
)

// trimBytes and trimInterval say when records that the standby has are removed.
const (
	trimBytes    = 8 << 20
	trimInterval = 10 * time.Second
)

var (
	slotKey    = []byte{store.Reserved, 's'}
	standbyKey = []byte{store.Reserved, 'p'}
	branchKey  = []byte{store.Reserved, 'b'}
)

const feedKeyBytes = 10

func feedKey(s store.Stamp) []byte {
	return binary.BigEndian.AppendUint64([]byte{store.Reserved, 'f'}, uint64(s))
}

var feedEnd = []byte{store.Reserved, 'f' + 1}

// Change is what one Update or DeleteRange has written.
type Change struct {
	Stamp store.Stamp
	Edits []byte // docs/formats/standby.md
}

// The kinds of edits.
const (
	editSet         = 1
	editDelete      = 2
	editDeleteRange = 3
)

// appendEdit adds an edit to those of a change.
func appendEdit(b []byte, kind byte, key, value []byte) []byte {
	b = binary.AppendUvarint(append(b, kind), uint64(len(key)))
	b = append(b, key...)
	if kind != editDelete {
		b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
	}
	return b
}

// editBytes is the size of what appendEdit adds.
func editBytes(kind byte, key, value []byte) int {
	size := 1 + uvarintBytes(len(key)) + len(key)
	if kind != editDelete {
		size += uvarintBytes(len(value)) + len(value)
	}
	return size
}

func uvarintBytes(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// cutBytes takes a length and as many bytes from b.
func cutBytes(b []byte) (content, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	return b[width : width+int(n)], b[width+int(n):], true
}

// decodeEdits calls fn with each edit of a change.
func decodeEdits(edits []byte, fn func(kind byte, key, value []byte) error) error {
	for len(edits) > 0 {
		kind := edits[0]
		key, rest, ok := cutBytes(edits[1:])
		var value []byte
		if ok && kind != editDelete {
			value, rest, ok = cutBytes(rest)
		}
		if !ok || len(key) == 0 || key[0] == store.Reserved || kind < editSet || kind > editDeleteRange {
			return fmt.Errorf("a change cannot be decoded: %w", store.ErrCorrupt)
		}
		if err := fn(kind, key, value); err != nil {
			return err
		}
		edits = rest
	}
	return nil
}

// addEdits adds the edits of a change to a batch.
func addEdits(batch *pebble.Batch, edits []byte) error {
	return decodeEdits(edits, func(kind byte, key, value []byte) error {
		switch kind {
		case editSet:
			return batch.Set(key, value, nil)
		case editDelete:
			return batch.Delete(key, nil)
		default:
			return batch.DeleteRange(key, value, nil)
		}
	})
}

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

// eachEdit calls fn with every edit of a batch.
func eachEdit(r batchrepr.Reader, fn func(kind byte, key, value []byte)) {
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			panic(fmt.Sprintf("a batch of our own cannot be read: %v", err))
		}
		if !ok {
			return
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			fn(editSet, key, value)
		case pebble.InternalKeyKindDelete:
			fn(editDelete, key, nil)
		case pebble.InternalKeyKindRangeDelete:
			fn(editDeleteRange, key, value)
		default:
			panic(fmt.Sprintf("a batch has an edit of kind %s", kind))
		}
	}
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

// openFeed finds the slot that an earlier process has left, and removes it if changes of that
// process or of others may be missing.
func (e *Engine) openFeed() error {
	if err := e.beginRun(); err != nil {
		return err
	}
	slot, from, err := e.readSlot()
	if err != nil || slot == "" {
		return err
	}
	reason, err := e.distrustSlot()
	if err != nil {
		return err
	}
	if reason != "" {
		e.log.Error("changes are no longer kept for the standby, which needs a new copy", "slot", slot, "reason", reason)
		if err := e.db.Delete(slotKey, e.sync()); err != nil {
			return failure("detach", err)
		}
		return nil
	}
	e.feed.slot, e.feed.from, e.feed.lastRead = slot, from, time.Now()
	e.feed.publish()
	e.feed.on.Store(true)
	return nil
}

// distrustSlot returns why the slot of an earlier process is of no use; empty if it is.
func (e *Engine) distrustSlot() (reason string, err error) {
	if e.durability == Relaxed {
		return "with relaxed durability, the standby could have writes that the server loses", nil
	}
	marked, err := e.feed.hasFormat()
	if err != nil || marked {
		return "", err
	}
	return "the file of the folder's format is missing, so another version may have written to it", nil
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

func (e *Engine) readSlot() (slot string, from store.Stamp, err error) {
	value, err := e.reserved(slotKey)
	if err != nil || value == nil {
		return "", 0, err
	}
	if len(value) < 9 {
		return "", 0, fmt.Errorf("the record of the standby's slot cannot be decoded: %w", store.ErrCorrupt)
	}
	return string(value[8:]), store.Stamp(binary.BigEndian.Uint64(value)), nil
}

// reserved reads one of the engine's own keys; nil if it is absent. It does not use bloom filters,
// as Pebble's Get does: their damage must not prevent that the folder is opened.
func (e *Engine) reserved(key []byte) ([]byte, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: append(bytes.Clone(key), 0)})
	if err != nil {
		return nil, failure("read", err)
	}
	var value []byte
	if it.First() {
		value, err = it.ValueAndErr()
		value = bytes.Clone(value)
	}
	closeErr := it.Close()
	if err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, failure("read", err)
	}
	return value, nil
}

func slotValue(slot string, from store.Stamp) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(from)), slot...)
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

// Attach makes a slot for a standby, in place of any other, and a snapshot for its
// copy. The copy and all changes from start on are the data; they are a state that the
// data had once the changes before consistent are applied, too.
func (e *Engine) Attach(ctx context.Context, slot string) (snap store.Snapshot, start, consistent store.Stamp, err error) {
	if err := e.gate.Enter(); err != nil {
		return nil, 0, 0, err
	}
	defer e.gate.Leave()
	if e.durability == Relaxed {
		return nil, 0, 0, ErrNotDurable
	}
	if e.disk.hasLittle(attachReserves) {
		return nil, 0, 0, ErrNoSpace
	}
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if err := e.detach(context.WithoutCancel(ctx)); err != nil { // a part of it would leave records
		return nil, 0, 0, err
	}
	if err := e.feed.markFormat(); err != nil {
		return nil, 0, 0, err
	}
	start = e.horizon()
	e.raiseLimit()
	if err := e.writeSlot(slot, start); err != nil {
		return nil, 0, 0, err
	}
	e.feed.slot, e.feed.from, e.feed.lastRead, e.feed.fresh = slot, start, time.Now(), commit.FreshSince(time.Now())
	e.feed.acked, e.feed.sent = sentChanges{to: start}, sentChanges{}
	e.feed.publish()
	if snap, err = e.beginRecords(ctx); err != nil {
		return nil, 0, 0, errors.Join(err, e.detach(context.WithoutCancel(ctx)))
	}
	// All that the snapshot shows is durable.
	return snap, start, e.returned(), nil
}

// writeSlot stores a slot, and the runs with it: from the first slot on all are recorded.
func (e *Engine) writeSlot(slot string, from store.Stamp) error {
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err := errors.Join(batch.Set(slotKey, slotValue(slot, from), nil), batch.Set(runsKey, encodeRuns(e.feed.runs()), nil))
	if err == nil {
		err = batch.Commit(e.sync())
	}
	if err != nil {
		return failure("attach", err)
	}
	return nil
}

// Returned returns a stamp that is larger than those of all Updates that have returned. The
// horizon is smaller while an Update with a smaller stamp is in flight.
func (e *Engine) Returned() (store.Stamp, error) {
	if err := e.gate.Enter(); err != nil {
		return 0, err
	}
	defer e.gate.Leave()
	return e.returned(), nil
}

func (e *Engine) returned() store.Stamp {
	newest := e.inFlight.Newest() // before the bound: an Update that has returned has recorded its window
	return min(newest+1, e.windows.Bound())
}

// beginRecords makes Updates record what they write, and returns a snapshot that has all
// that is not recorded.
func (e *Engine) beginRecords(ctx context.Context) (store.Snapshot, error) {
	e.deleting.Lock() // a delete that began before records none
	e.feed.on.Store(true)
	e.deleting.Unlock()
	// An Update has a stamp before it looks whether to record, so those that do not
	// record have a stamp by now. A snapshot itself waits only for what it shows.
	if err := e.inFlight.WaitDurable(ctx, e.inFlight.Newest()); err != nil {
		return nil, err
	}
	return e.Snapshot(ctx)
}

// detach removes the slot and all records. The caller holds mu.
//
// The slot is removed first: after a crash it must not exist if there are Updates that were
// not recorded.
func (e *Engine) detach(ctx context.Context) error {
	if err := e.db.Delete(slotKey, e.sync()); err != nil {
		return failure("detach", err)
	}
	e.feed.slot = ""
	e.feed.publish()
	e.deleting.Lock() // a delete that began before records, in order with Updates that do
	e.feed.on.Store(false)
	e.deleting.Unlock()
	if err := e.inFlight.WaitDurable(ctx, e.inFlight.Newest()); err != nil { // they may add records
		return err
	}
	if err := e.db.DeleteRange(feedKey(0), feedEnd, e.sync()); err != nil {
		return failure("detach", err)
	}
	if e.feed.bytes.Swap(0) > 0 || !e.feed.counted {
		signal(e.feed.removed)
	}
	e.feed.counted = true
	return nil
}

// Detach removes a slot, if it exists.
func (e *Engine) Detach(ctx context.Context, slot string) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if slot == "" || slot != e.feed.slot {
		return nil
	}
	return e.detach(ctx)
}

// Attachment is a slot as it is now.
type Attachment struct {
	Slot     string    // empty if there is none
	LastRead time.Time // by the standby
	Fresh    time.Time // the standby is known to have all Updates that had returned then; zero if that is unknown
	Bytes    int64     // of the changes that the standby is not known to have, approximately

	acked int64 // bytes of the records that it has
}

// Attached returns the slot. It does not wait for the disk.
func (e *Engine) Attached() Attachment {
	now := e.feed.attached.Load()
	if now == nil {
		return Attachment{}
	}
	a := *now
	a.Bytes = max(0, e.feed.bytes.Load()-a.acked)
	return a
}

// publish sets what Attached returns. The caller holds mu.
func (f *feed) publish() {
	if f.slot == "" {
		f.attached.Store(nil)
		return
	}
	f.attached.Store(&Attachment{Slot: f.slot, LastRead: f.lastRead, Fresh: f.fresh.Known(), acked: f.acked.bytes})
}

// KeepSlot records that the standby of a slot still reads its copy. It returns ErrNoSlot if
// the slot is gone.
func (e *Engine) KeepSlot(slot string) error {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if slot == "" || slot != e.feed.slot {
		return ErrNoSlot
	}
	e.feed.lastRead = time.Now()
	e.feed.publish()
	return nil
}

// Changes returns changes from a stamp on: all before next, which is at most horizon.
// The standby has all before from, so they are removed. If there are no changes, it
// waits for some.
func (e *Engine) Changes(ctx context.Context, slot string, from store.Stamp, maxBytes int, wait time.Duration) (changes []Change, next, horizon store.Stamp, err error) {
	if err := e.gate.Enter(); err != nil {
		return nil, 0, 0, err
	}
	defer e.gate.Leave()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		changes, next, horizon, err = e.changes(ctx, slot, from, maxBytes)
		if err != nil || len(changes) > 0 {
			return changes, next, horizon, err
		}
		select {
		case <-e.feed.added:
		case <-timeout.C:
			return nil, next, horizon, nil
		case <-ctx.Done():
			return nil, 0, 0, ctx.Err()
		}
	}
}

// changes is Changes without waiting.
func (e *Engine) changes(ctx context.Context, slot string, from store.Stamp, maxBytes int) (changes []Change, next, horizon store.Stamp, err error) {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if slot == "" || slot != e.feed.slot || from < e.feed.from {
		return nil, 0, 0, ErrNoSlot
	}
	e.feed.lastRead = time.Now()
	defer e.feed.publish()
	if err := e.countRecords(ctx); err != nil { // before some are removed
		return nil, 0, 0, err
	}
	if err := e.acknowledge(from); err != nil {
		return nil, 0, 0, err
	}
	if err := e.trim(); err != nil {
		return nil, 0, 0, err
	}
	e.feed.lowerLimit()
	now, returned := time.Now(), e.returned()
	if horizon = e.horizon(); horizon < from {
		return nil, 0, 0, ErrNoSlot // the standby has changes that this engine does not have
	}
	sent := sentChanges{to: horizon}
	err = e.eachRecord(from, horizon, func(stamp store.Stamp, edits []byte) bool {
		if sent.bytes > 0 && sent.bytes+recordBytes(edits) > int64(maxBytes) {
			sent.to = changes[len(changes)-1].Stamp + 1
			return false
		}
		sent.bytes += recordBytes(edits)
		changes = append(changes, Change{stamp, bytes.Clone(edits)})
		return true
	})
	if err != nil {
		return nil, 0, 0, err
	}
	has := from
	if len(changes) == 0 {
		has = horizon // there are none that it could lack
	}
	e.feed.fresh.Observe(now, returned, has)
	e.feed.sent = sent
	return changes, sent.to, horizon, nil
}

// acknowledge records that the standby has all changes before a stamp. The caller holds mu.
func (e *Engine) acknowledge(to store.Stamp) error {
	f := &e.feed
	switch {
	case to == f.sent.to && f.acked.to <= to:
		f.acked.bytes += f.sent.bytes
		f.sent.bytes = 0
	case to != f.acked.to:
		bytes, err := e.feedBytes(f.from, to)
		if err != nil {
			return err
		}
		f.acked.bytes = bytes
	}
	f.acked.to = to
	return nil
}

// trim removes the records that the standby has, if there are many or it has not been done
// for some time. The caller holds mu.
func (e *Engine) trim() error {
	f := &e.feed
	if f.acked.bytes == 0 || f.acked.bytes < trimBytes && time.Since(f.trimmed) < trimInterval {
		return nil
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err := errors.Join(batch.DeleteRange(feedKey(0), feedKey(f.acked.to), nil), batch.Set(slotKey, slotValue(f.slot, f.acked.to), nil))
	if err == nil {
		err = batch.Commit(pebble.NoSync) // if it is lost, it is done again
	}
	if err != nil {
		return failure("remove changes", err)
	}
	f.bytes.Add(-f.acked.bytes)
	f.from, f.trimmed, f.acked.bytes = f.acked.to, time.Now(), 0
	return nil
}

// runFeed removes the slot when its records take too much space, or the disk is almost
// full.
func (e *Engine) runFeed(ctx context.Context) {
	e.feed.mu.Lock()
	err := e.countRecords(ctx)
	e.feed.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		e.log.Error("the changes for a standby cannot be read", "error", err)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.feed.exceeded:
		case <-e.feed.removed:
			e.compactFeed(ctx)
		case <-tick.C:
		}
		if e.feedIsTooLarge() {
			e.dropSlot(ctx)
		}
	}
}

// compactFeed returns the space of removed records to the disk. Pebble would do it when it has
// to, and the compactions of a full disk are those of other keys.
func (e *Engine) compactFeed(ctx context.Context) {
	if !e.flush(ctx) {
		return
	}
	if err := e.compactRange(ctx, feedKey(0), feedEnd); err != nil && ctx.Err() == nil {
		e.log.Warn("the space of the changes for a standby is not free yet", "error", err)
	}
}

// raiseLimit sets the limit for a copy: as many records as there is data. So a copy ends if changes
// are written more slowly than data is copied, however much there is.
func (e *Engine) raiseLimit() {
	data, err := e.db.EstimateDiskUsage([]byte{0}, []byte{store.Reserved})
	if err != nil {
		data = 0 // the usual limit holds
	}
	e.feed.limit.Store(max(e.feed.maxBytes, int64(data)))
}

// lowerLimit sets the usual limit, if the records are below it: the standby has a copy.
func (f *feed) lowerLimit() {
	if f.bytes.Load() <= f.maxBytes {
		f.limit.Store(f.maxBytes)
	}
}

// feedIsTooLarge reports whether the records take too much space.
func (e *Engine) feedIsTooLarge() bool {
	return e.feed.on.Load() && (e.feed.bytes.Load() > e.feed.limit.Load() || e.disk.hasLittle(dropReserves))
}

// dropSlot removes the slot, unless there was space meanwhile.
func (e *Engine) dropSlot(ctx context.Context) {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if e.feed.slot == "" || !e.feedIsTooLarge() {
		return
	}
	kept, slot, lastRead := e.feed.bytes.Load(), e.feed.slot, e.feed.lastRead
	if err := e.detach(ctx); err != nil {
		if ctx.Err() == nil {
			e.log.Error("the changes for the standby take too much space, and cannot be removed", "error", err)
		}
		return
	}
	e.log.Error("changes are no longer kept for the standby, which needs a new copy: they took too much space, or the disk is almost full", "slot", slot, "bytes", kept, "limit", e.feed.limit.Load(), "lastRead", lastRead)
}

// The standby's side

// Load writes pairs to an engine that has none. state returns the standby's state: that of an
// unfinished copy, which is stored first, and then that of a complete one.
func (e *Engine) Load(ctx context.Context, pairs func(yield func(store.Pair, error) bool), next store.Stamp, state func(complete bool) []byte) error {
	const batchBytes = 4 << 20
	if err := e.feed.markFormat(); err != nil {
		return err
	}
	if err := e.applyLoaded(ctx, next, state(false)); err != nil {
		return err
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for p, err := range pairs {
		if err != nil {
			return err
		}
		if err := batch.Set(p.Key, p.Value, nil); err != nil {
			return failure("load", err)
		}
		if batch.Len() < batchBytes {
			continue
		}
		if err := e.admitLoad(ctx, batch.Len()); err != nil {
			return err
		}
		if err := batch.Commit(pebble.NoSync); err != nil {
			return failure("load", err)
		}
		_ = batch.Close()
		batch = e.db.NewBatch()
	}
	if err := e.admitLoad(ctx, batch.Len()); err != nil {
		return err
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return failure("load", err)
	}
	if err := e.db.Flush(); err != nil {
		return failure("load", err)
	}
	return e.applyLoaded(ctx, next, state(true))
}

// applyLoaded stores the state of a copy, when Pebble is not behind.
func (e *Engine) applyLoaded(ctx context.Context, next store.Stamp, state []byte) error {
	return retryBehind(ctx, func() error { return e.Apply(ctx, nil, next, state) })
}

// loadPause is the pause between the attempts of a load.
const loadPause = 50 * time.Millisecond

// admitLoad waits until Pebble is not behind, and takes space for a batch. A load writes
// faster than Pebble compacts, and beginning again would not help.
func (e *Engine) admitLoad(ctx context.Context, bytes int) error {
	return retryBehind(ctx, func() error {
		if err := e.disk.admit(ctx); err != nil {
			return err
		}
		return e.disk.take(ctx, bytes)
	})
}

// retryBehind calls try, with pauses, as long as it returns store.ErrBehind and the context has not
// ended.
func retryBehind(ctx context.Context, try func() error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := try(); !errors.Is(err, store.ErrBehind) {
			return err
		}
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
		}
	}
}

// Apply writes changes, of which next follows the last, and the standby's state in one
// batch. Stamps that this engine gives out later are larger than next. Nothing may have
// been read from the engine before: Apply does not know its caches.
func (e *Engine) Apply(ctx context.Context, changes []Change, next store.Stamp, state []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := e.disk.admit(ctx); err != nil {
		return err
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for _, c := range changes {
		if err := addEdits(batch, c.Edits); err != nil {
			return err
		}
	}
	if err := batch.Set(standbyKey, state, nil); err != nil {
		return failure("apply", err)
	}
	stamp := e.inFlight.Begin(next)
	defer e.inFlight.End(stamp)
	if err := e.recordWindow(batch, stamp); err != nil {
		return failure("apply", err)
	}
	if err := e.disk.take(ctx, batch.Len()); err != nil {
		return err
	}
	if err := batch.Commit(e.sync()); err != nil {
		return failure("apply", err)
	}
	e.windows.Recorded(stamp)
	e.idle.wrote()
	return nil
}

// StandbyState returns the state of a standby; nil if the engine is not that of one.
func (e *Engine) StandbyState() ([]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	return e.reserved(standbyKey)
}

// EndStandby removes the standby's state: the engine is from now on like any other. Its
// data has a new branch, as it differs from the server's from now on.
func (e *Engine) EndStandby() error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err := errors.Join(batch.Delete(standbyKey, nil), batch.Set(branchKey, []byte(rand.Text()), nil))
	if err == nil {
		err = batch.Commit(e.sync())
	}
	if err != nil {
		return failure("promote", err)
	}
	return nil
}

// Branch returns an id that the data has since the last promotion; empty if there was none.
func (e *Engine) Branch() (string, error) {
	if err := e.gate.Enter(); err != nil {
		return "", err
	}
	defer e.gate.Leave()
	branch, err := e.reserved(branchKey)
	return string(branch), err
}
