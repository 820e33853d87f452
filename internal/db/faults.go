package db

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
)

// Faults are what a test injects into one request, which Bill.Faults carries. They are asked for
// where the limits of throughput are, when the request is known to fit its tables.
type Faults interface {
	// RejectRead and RejectWrite return the fault of a read, or of the i-th of n writes; nil
	// if it is not rejected. The index is nil for the table itself.
	RejectRead(t *schema.Table, x *schema.Index) error
	RejectWrite(t *schema.Table, i, n int) error

	// Lag returns how old what an eventually consistent read of a table or an index returns is;
	// 0 for the present. Lagged is called when that differs from the present.
	Lag(x *schema.Index) time.Duration
	Lagged(x *schema.Index, lag time.Duration)

	// PageItems returns after how many items a page ends; 0 if it does not end early. PageEnded is
	// called when it has.
	PageItems() int
	PageEnded(items int)
}

// keptChanges is how long changes are kept that only Faults.Lag needs.
const keptChanges = 15 * time.Minute

// laggingReads is how many reads of the past may run at a time for Faults.Lag.
const laggingReads = 64

// faults returns what is injected into a request; nil if nothing is.
func (b *Bill) faults() Faults {
	if b == nil {
		return nil
	}
	return b.Faults
}

// reject returns the injected fault of a read.
func (d *DB) reject(b *Bill, t *table, a access) error {
	x, _ := t.indexOf(a.index)
	err := located(b.Faults.RejectRead(t.Table, x), a.stored)
	if isThrottled(err) {
		d.throttled(b, t, a, err)
	}
	return err
}

// indexOf returns the index with an id.
func (t *table) indexOf(id uint16) (*schema.Index, bool) {
	for i := range t.Indexes {
		if t.Indexes[i].ID == id && id != 0 {
			return &t.Indexes[i], true
		}
	}
	return nil, false
}

// rejectWrite returns the injected fault of the i-th of n writes.
func (a *admission) rejectWrite(i, n int) error {
	f := a.bill.faults()
	if f == nil || !a.isCustomers(i) {
		return nil
	}
	return located(f.RejectWrite(a.tables[i].Table, i, n), a.keys[i])
}

// located returns an injected fault of the request for a stored key, which a Throttled is counted for.
func located(err error, key []byte) error {
	if e, ok := errors.AsType[*Throttled](err); ok && key != nil {
		e.Hash = keyspace.Hash(key)
	}
	return err
}

// openLagging returns a reader of a table or an index as it was a time ago; nil if that is as it
// is now, or cannot be read. The caller closes the reader.
func (d *DB) openLagging(ctx context.Context, t *schema.Table, x *schema.Index, lag time.Duration) (*history.Reader, *history.Past, error) {
	if lag <= 0 || !d.keepChanges {
		return nil, nil, nil
	}
	at := d.Now().Add(-lag)
	r, err := d.past.Open(ctx, d.engine)
	if errors.Is(err, history.ErrBusy) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	past, err := r.Before(ctx, t, x, at)
	if err != nil || past.IsPresent() {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, past, nil
}

// lagReader reads the items of a table as they were a time ago. A nil lagReader reads the present ones.
type lagReader struct {
	db     *DB
	faults Faults
	table  *schema.Table
	memory *buffer.Tally
	lag    time.Duration
	reader *history.Reader
	past   *history.Past
	noted  bool
}

// newLagReader returns the reader of a request; nil if it reads the present. The caller closes it.
func (d *DB) newLagReader(ctx context.Context, f Faults, t *schema.Table, memory *buffer.Tally) (*lagReader, error) {
	lag := f.Lag(nil)
	r, past, err := d.openLagging(ctx, t, nil, lag)
	if r == nil {
		return nil, err
	}
	return &lagReader{db: d, faults: f, table: t, memory: memory, lag: lag, reader: r, past: past}, nil
}

func (l *lagReader) close() {
	if l != nil {
		l.reader.Close()
	}
}

// read returns the item of a key, of which the present one is known. Expired items are hidden as by other reads.
func (l *lagReader) read(ctx context.Context, key []byte, is item.Item) (was item.Item, err error) {
	if l == nil {
		return is, nil
	}
	span := store.Range{Start: key, End: append(slices.Clone(key), 0)}
	if _, err := l.past.Read(ctx, span, func(_ []byte, it item.Item, _ func() (item.Item, error)) bool {
		was = slices.Clone(it)
		return true
	}); err != nil {
		return nil, err
	}
	if l.db.hidden(l.table, was) {
		was = nil
	}
	if sameItem(was, is) {
		return is, nil
	}
	if !l.memory.Add(0, len(was)) {
		return nil, buffer.ErrNoRoom
	}
	if !l.noted {
		l.noted = true
		l.faults.Lagged(nil, l.lag)
	}
	return was, nil
}

// readLagging reads the page of a range as it was a time ago. It reports whether it did.
func (p *pageReader) readLagging(f Faults) (done bool, err error) {
	lag := f.Lag(p.target.index)
	r, past, err := p.db.openLagging(p.ctx, p.target.table, p.target.index, lag)
	if r == nil {
		return false, err
	}
	defer r.Close()
	f.Lagged(p.target.index, lag)
	return true, p.readFrom(past)
}

// endEarly lowers the limit of a page.
func (r *Range) endEarly(f Faults) (early bool) {
	n := f.PageItems()
	if n == 0 || r.Limit != 0 && r.Limit <= n {
		return false
	}
	r.Limit = n
	return true
}

// SplitShard splits the open shard of a table's stream that takes changes of keys with a hash, as a
// hot partition does. It reports whether it did: a stream has a limited number of shards.
func (d *DB) SplitShard(ctx context.Context, of *schema.Table, at uint64) (split bool, err error) {
	_, err = d.alter(ctx, of.Name, func(def *schema.Table) error {
		split = def.ID == of.ID && def.SplitShard(at)
		return nil
	})
	if gone, ok := errors.AsType[*apierror.Error](err); ok && gone.Code == apierror.NoTable().Code {
		return false, nil
	}
	return split && err == nil, err
}

// dropKeptChanges removes the changes that were recorded for Faults.Lag only: those of earlier
// writes would not follow from them. The changes of streams that were disabled remain: Trim removes
// them when they can no longer be read.
func (d *DB) dropKeptChanges(ctx context.Context) error {
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		t, ok := d.find(name)
		if !ok || t.Logs() {
			continue
		}
		from := uint64(0)
		for i := range t.Streams {
			from = max(from, t.Streams[i].End)
		}
		for slot := range keyspace.Slots {
			start, end := keyspace.ChangeSpan(t.ID, slot, from, math.MaxUint64)
			if err := d.engine.DeleteRange(ctx, start, end); err != nil {
				return err
			}
		}
	}
	return nil
}
