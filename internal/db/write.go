package db

import (
	"context"
	"errors"
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Write executes all of the writes, or none. No two of them may name one item.
// The outcomes are in the order of the writes. If several writes are rejected, it
// returns the fault of the first.
func (d *DB) Write(ctx context.Context, writes ...Write) ([]Outcome, error) {
	outcomes, err := d.commit(ctx, writes, extra{})
	if err == nil {
		return outcomes, nil
	}
	var cancelled *Cancelled
	if errors.As(err, &cancelled) {
		return nil, cancelled.first()
	}
	return nil, err
}

// maxBatchUpdate is the memory that the updates of a WriteBatch need, each.
const maxBatchUpdate = 32 << 20

// WriteBatch executes the writes in one update, or in several if they are large:
// then some may be executed, and others not. No two of them may name one item, and
// each must be a Replace or a Remove.
//
// A write may be left undone: its outcome has no table. That are all those of a later
// update that the store rejects for now, and those that are throttled, unless no write
// is done.
func (d *DB) WriteBatch(ctx context.Context, writes ...Write) ([]Outcome, error) {
	outcomes := make([]Outcome, 0, len(writes))
	total, anyDone := len(writes), false
	for len(writes) > 0 {
		n := d.firstUpdate(writes)
		if n < len(writes) && len(outcomes) == 0 {
			if err := d.checkItems(writes); err != nil {
				return nil, err
			}
		}
		done, err := d.writeAdmitted(ctx, writes[:n])
		if anyDone && (isTransient(err) || isThrottled(err)) {
			return append(outcomes, make([]Outcome, total-len(outcomes))...), nil
		}
		if err != nil {
			return nil, err
		}
		if n == total {
			return done, nil
		}
		outcomes, writes, anyDone = append(outcomes, done...), writes[n:], true
		buffer.Commit(ctx)
	}
	return outcomes, nil
}

// writeAdmitted executes the writes that are not throttled. The outcomes of the others
// have no table. If all are, it returns the fault of the first.
func (d *DB) writeAdmitted(ctx context.Context, writes []Write) ([]Outcome, error) {
	done, err := d.commit(ctx, writes, extra{batch: true})
	cancelled, ok := errors.AsType[*Cancelled](err)
	if !ok {
		return done, err
	}
	var admitted []Write
	for i, reason := range cancelled.Reasons {
		if reason == nil {
			admitted = append(admitted, writes[i])
		} else if !isThrottled(reason) {
			return nil, reason
		}
	}
	if len(admitted) == 0 {
		return nil, cancelled.first()
	}
	done, err = d.writeAdmitted(ctx, admitted)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(writes))
	for i, reason := range cancelled.Reasons {
		if reason == nil {
			outcomes[i], done = done[0], done[1:]
		}
	}
	return outcomes, nil
}

// checkItems returns the fault of an item that is too large. An update checks its own
// items only.
func (d *DB) checkItems(writes []Write) error {
	for i := range writes {
		t, err := d.use(writes[i].Table)
		if err != nil {
			return err
		}
		it := writes[i].Key // the item itself, unless it is removed
		if err := writes[i].checkAfter(t.Table, nil, it, it.Size()); err != nil {
			return err
		}
	}
	return nil
}

// isTransient reports whether an update was rejected that may succeed later.
func isTransient(err error) bool {
	var fault *apierror.Error
	if errors.As(err, &fault) {
		return fault.Code == apierror.Conflict().Code
	}
	return errors.Is(err, store.ErrBehind) || errors.Is(err, store.ErrFull)
}

// firstUpdate returns how many of the writes fit in one update.
func (d *DB) firstUpdate(writes []Write) int {
	bytes := 0
	for i := range writes {
		bytes += len(writes[i].Key)
	}
	if bytes <= maxBatchUpdate/64 { // a table has up to 25 indexes
		return len(writes)
	}
	bytes = 0
	for i := range writes {
		t, err := d.use(writes[i].Table)
		if err != nil {
			return len(writes) // the write reports it
		}
		if bytes += updateBytes(t.Table, 0, len(writes[i].Key), d.records(t.Table)); bytes > maxBatchUpdate && i > 0 {
			return i
		}
	}
	return len(writes)
}

// commit executes all of the writes, or none, and more in the same update. It returns when
// the caches of other servers have dropped what the writes have changed.
func (d *DB) commit(ctx context.Context, writes []Write, more extra) ([]Outcome, error) {
	outcomes, keys, err := d.commitHere(ctx, writes, more)
	if d.announcer != nil {
		// Without the locks of the tables: a server handles the messages of others one by
		// one, and waits for these locks when a table is changed.
		err = d.announcer.changed(ctx, keys, err)
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// commitHere is commit without the caches of other servers. It returns the keys of the items
// that were written, or may have been.
func (d *DB) commitHere(ctx context.Context, writes []Write, more extra) (_ []Outcome, changed [][]byte, _ error) {
	tables, release, err := d.lockTables(writes)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	keys, unfit, err := declare(writes, tables)
	if err != nil {
		return nil, nil, err
	}
	count := len(writes)
	if unfit.fault != nil {
		if !more.transaction || unfit.at == 0 {
			return nil, nil, unfit.cancelled(nil, count)
		}
		// The writes before it are evaluated for their reasons.
		writes, tables, keys = writes[:unfit.at], tables[:unfit.at], keys[:unfit.at:unfit.at]
	}
	u := plannedUpdate{admission: admission{d: d, bill: billOf(ctx), writes: writes, tables: tables, keys: keys, batch: more.batch, factor: 1},
		extra: more, count: count, unfit: unfit}
	admitted := &u.admission
	admitted.bill.uses(tables)
	if more.transaction {
		admitted.factor = 2
	}
	if !more.transaction {
		if err := admitted.admit(count); err != nil {
			d.countReasons(admitted.bill, writes, tables, err)
			return nil, nil, err
		}
	}
	declared := keys
	for i, t := range tables {
		if t.HasLocal() {
			declared = append(declared, keyspace.Collection(t.Table, writes[i].Key))
		}
	}
	declared = append(declared, more.keys...)

	u.declared, u.now, u.outcomes = declared, d.moment(), make([]Outcome, len(writes))
	if d.writing != nil {
		defer d.writing(keys)()
	}
	err = d.runWithin(ctx, &u)
	if errors.Is(err, store.ErrFull) && onlyDeletes(writes) {
		err = d.runWithin(store.Freeing(ctx), &u)
	}
	if replayed, ok := errors.AsType[*Replayed](err); ok {
		admitted.replayed(replayed.Sizes)
	} else if err != nil {
		admitted.failed(err)
		d.countReasons(admitted.bill, writes, tables, err)
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		for i, t := range tables {
			if admitted.isCustomers(i) {
				t.series.conflicts.Add(1)
			}
		}
		return nil, nil, conflict(count)
	case errors.Is(err, store.ErrTooLarge): // with all index entries, on an engine with a small limit
		return nil, nil, apierror.TransactionTooLarge()
	case isReplayed(err) || errors.Is(err, store.ErrUnknownOutcome):
		return nil, keys, err
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range u.outcomes {
		tables[i].counts.countWrite(&u.outcomes[i])
	}
	admitted.done(u.outcomes)
	return u.outcomes, keys, nil
}

// isReplayed reports whether a transaction was executed before.
func isReplayed(err error) bool {
	_, ok := errors.AsType[*Replayed](err)
	return ok
}

// onlyDeletes reports whether writes free space.
func onlyDeletes(writes []Write) bool {
	return !slices.ContainsFunc(writes, func(w Write) bool { return !w.Deletes })
}

// plannedUpdate is the writes of one commit.
type plannedUpdate struct {
	admission // with the writes, their tables and keys
	declared  [][]byte
	extra     extra
	now       moment
	outcomes  []Outcome

	count int        // of the writes of the commit
	unfit unfitWrite // the write after the last of writes, if it does not fit
}

// smallUpdate is the memory up to which an update needs no room. buffer.Room bounds
// the memory of larger ones.
const smallUpdate = 4 * buffer.Small

// errUpdateGrows is returned by apply when an update needs more memory than was
// reserved for it. Nothing is written then.
var errUpdateGrows = errors.New("the update is larger than expected")

// runWithin runs an update when there is room for it. The sizes of the items before
// it are unknown, so an update that turns out to need more is run again.
func (d *DB) runWithin(ctx context.Context, u *plannedUpdate) error {
	buf := encodeBuffers.Get().(*encodeBuffer)
	defer buf.release()
	buf.allowed = smallUpdate
	reserved := 0
	for bytes := u.plannedBytes(); ; bytes = max(buf.size*len(u.writes)/buf.writes, reserved+reserved/4) {
		if bytes > smallUpdate {
			room := buffer.RoomOf(ctx)
			if room == nil {
				buf.allowed = 0
			} else if !room.Reserve(bytes - reserved) {
				return buffer.ErrNoRoom
			} else {
				defer room.Return(bytes - reserved)
				reserved, buf.allowed = bytes, bytes
			}
		}
		if err := d.run(ctx, u, buf); !errors.Is(err, errUpdateGrows) {
			return err
		}
	}
}

// plannedBytes is about the memory that the update needs, as far as it is known
// before the items are read.
func (u *plannedUpdate) plannedBytes() (bytes int) {
	for i := range u.writes {
		bytes += updateBytes(u.tables[i].Table, len(u.writes[i].Key), len(u.writes[i].Key), u.d.records(u.tables[i].Table))
	}
	return bytes
}

// countedBytes is the size with which a write counts towards maxBytes: that of the
// item after an update, and of what the request has of other items.
func (u *plannedUpdate) countedBytes(i int) int {
	if !u.writes[i].Update {
		return u.writes[i].Key.Size()
	}
	return u.outcomes[i].afterBytes
}

// run runs the writes of an update.
func (d *DB) run(ctx context.Context, u *plannedUpdate, buf *encodeBuffer) error {
	return d.engine.Update(ctx, u.declared, func(tx store.Tx) error {
		buf.reset() // fn may run again
		u.admission.pending = u.admission.pending[:0]
		if u.extra.before != nil {
			if err := u.extra.before(tx); err != nil {
				return err
			}
		}
		// A transaction that is not valid, or was executed before, writes nothing.
		if u.extra.transaction && u.unfit.fault == nil {
			if err := u.admission.admit(u.count); err != nil {
				return err
			}
		}
		var cancelled *Cancelled
		size, by := 0, u.admission.bill.principal()
		for i := range u.writes {
			o, err := d.apply(tx, u.tables[i].Table, &u.writes[i], position{u.keys[i], i, u.now, by}, buf)
			if err == nil {
				err = u.admission.admitEdits(i, o.edits)
			}
			if err != nil {
				var whole error
				if cancelled, whole = cancelled.add(i, u.count, err); whole != nil {
					return whole
				}
				if u.extra.transaction && isInvalid(err) {
					return cancelled
				}
			}
			u.outcomes[i] = o
			if size += u.countedBytes(i); u.extra.maxBytes > 0 && size > u.extra.maxBytes {
				return apierror.TransactionTooLarge()
			}
		}
		if u.unfit.fault != nil {
			return u.unfit.cancelled(cancelled, u.count)
		}
		if cancelled != nil {
			return cancelled
		}
		if u.extra.after != nil {
			u.extra.after(tx, u.outcomes)
		}
		return nil
	})
}

// extra is what an update does in addition to its writes, and its limit.
type extra struct {
	keys     [][]byte // declared in addition to those of the writes
	before   func(store.Tx) error
	after    func(store.Tx, []Outcome)
	maxBytes int // of all items that are written; 0 is no limit

	batch bool // the writes are throttled one by one

	// transaction evaluates the writes up to the first that is not valid, and
	// charges as transactions do.
	transaction bool
}

// isInvalid reports whether a write was rejected because it is not valid, in
// contrast to a condition that does not hold.
func isInvalid(err error) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && fault.Code == "ValidationException"
}

// lockTables returns the table of each write. The tables are neither altered nor
// dropped until release is called.
func (d *DB) lockTables(writes []Write) (tables []*table, release func(), err error) {
	names := make([]string, 0, 4)
	for i := range writes {
		if i == 0 || writes[i].Table != writes[i-1].Table {
			names = append(names, writes[i].Table)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	held, err := d.lockByName(names)
	if err != nil {
		return nil, nil, err
	}
	tables = make([]*table, len(writes))
	for i := range writes {
		at, _ := slices.BinarySearch(names, writes[i].Table)
		tables[i] = held[at]
	}
	return tables, func() { unlockTables(held) }, nil
}

// lockByName locks the tables of some names, which are sorted, for reading, until
// unlockTables is called.
func (d *DB) lockByName(names []string) ([]*table, error) {
	held := make([]*table, 0, len(names))
	for {
		for _, name := range names {
			t, err := d.use(name)
			if err != nil {
				return nil, err
			}
			held = append(held, t)
		}
		for i, t := range held {
			t.inUse.RLock()
			if now, err := d.useNow(t.Name); err != nil || now != t {
				// It was altered or dropped in the meantime. That change may be
				// waiting for our locks, so release them before waiting for it.
				unlockTables(held[:i+1])
				held = held[:0]
				break
			}
		}
		if len(held) > 0 {
			return held, nil
		}
	}
}

func unlockTables(held []*table) {
	for _, t := range held {
		t.inUse.RUnlock()
	}
}

// unfitWrite is the first write that does not fit its table.
type unfitWrite struct {
	at    int
	fault error // nil if all writes fit
}

// cancelled adds the fault to the reasons c of n writes; c may be nil.
func (u unfitWrite) cancelled(c *Cancelled, n int) error {
	c, err := c.add(u.at, n, u.fault)
	if err != nil {
		return err
	}
	return c
}

// declare checks that the writes fit their tables, and returns the keys of their
// items, with capacity for the other keys that commit declares.
func declare(writes []Write, tables []*table) (keys [][]byte, unfit unfitWrite, err error) {
	keys = make([][]byte, len(writes), 2*len(writes)+1)
	var buf []byte // holds all keys
	for i := range writes {
		w, t := &writes[i], tables[i].Table
		if err := w.fits(t); err != nil {
			if isWhole(err) {
				return nil, unfit, err
			}
			if unfit.fault == nil {
				unfit = unfitWrite{i, err}
			}
			continue
		}
		from := len(buf)
		buf = keyspace.Item(buf, t, w.Key)
		keys[i] = buf[from:len(buf):len(buf)]
	}
	return keys, unfit, nil
}
