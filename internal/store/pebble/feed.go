package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

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

// ErrNoSlot is returned to a standby whose slot does not exist any more: it needs a new
// copy.
var ErrNoSlot = errors.New("the server does not keep the changes for this standby any more")

// ErrNoSpace is returned to a standby whose changes would soon fill the disk.
var ErrNoSpace = errors.New("the server's disk is almost full, so it cannot keep changes for a standby")

// ErrNotDurable is returned for an engine that may lose what a standby has.
var ErrNotDurable = errors.New("a server with relaxed durability, or in memory, cannot have a standby: after a crash the standby would have writes that the server has lost")

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
