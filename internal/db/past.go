package db

import (
	"context"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
)

// NotReadable is returned when a table's past cannot be read at a time.
type NotReadable struct {
	Table            string
	At               time.Time
	Earliest, Latest time.Time // zero if no past is kept
	Err              error     // history.ErrNoRecovery or history.ErrNotRestorable
}

func (e *NotReadable) Error() string { return e.Err.Error() }

func (e *NotReadable) Unwrap() error { return e.Err }

// openPast returns a reader for a table, which the caller closes. If second is not zero,
// it returns NotReadable unless the table can be read as it was at its end.
func (d *DB) openPast(ctx context.Context, t *schema.Table, second time.Time) (*history.Reader, error) {
	now := d.Now() // before the view, which then contains the whole of any second that is over
	r, err := d.past.Open(ctx, d.engine)
	if err != nil || second.IsZero() {
		return r, err
	}
	earliest, latest, err := r.View().Readable(ctx, t, second, now)
	if err != nil {
		_ = r.Close()
		return nil, &NotReadable{t.Name, second, earliest, latest, err}
	}
	return r, nil
}

// endOf returns the time at which a second is over.
func endOf(second time.Time) time.Time { return second.Truncate(time.Second).Add(time.Second) }

// GetOneAt reads an item by its key as it was at the end of a second. It returns nil if the
// item did not exist.
func (d *DB) GetOneAt(ctx context.Context, g Get, key item.Item, second time.Time) (found item.Item, err error) {
	t, err := d.open(g)
	if err != nil {
		return nil, err
	}
	if err := t.CheckKey(key); err != nil {
		return nil, err
	}
	at := access{stored: keyspace.Item(nil, t.Table, key), item: key}
	bill := billOf(ctx)
	if err := d.admitRead(bill, t, at); err != nil {
		return nil, err
	}
	r, err := d.openPast(ctx, t.Table, second)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	past, err := r.Before(ctx, t.Table, nil, endOf(second))
	if err != nil {
		return nil, err
	}
	span := store.Range{Start: at.stored, End: append(slices.Clone(at.stored), 0)}
	_, err = past.Read(ctx, span, func(_ []byte, it item.Item, _ func() (item.Item, error)) bool {
		found = slices.Clone(it)
		return true
	})
	if err == nil {
		d.consumeRead(bill, t, at, readUnits(found, g.Consistent))
	}
	return found, err
}

// readPast reads the page of a range as it was.
func (p *pageReader) readPast() error {
	r, err := p.db.openPast(p.ctx, p.target.table, p.r.At)
	if err != nil {
		return err
	}
	defer r.Close()
	past, err := r.Before(p.ctx, p.target.table, p.target.index, endOf(p.r.At))
	if err != nil {
		return err
	}
	return p.readFrom(past)
}

// readFrom reads the page of a range from the past.
func (p *pageReader) readFrom(past *history.Past) error {
	var last item.Item // the key of the last item
	more, err := past.Read(p.ctx, p.target.span, func(key []byte, it item.Item, whole func() (item.Item, error)) bool {
		p.whole = whole
		last = p.target.keyOf(it)
		return p.nextItem(key, it)
	})
	if err == nil && more && p.err == nil && !p.isSingle() {
		p.page.Last = last
	}
	if err == nil {
		err = p.err
	}
	return err
}

// ItemHistory is a plan to read the changes of one item, the newest first.
type ItemHistory struct {
	Table string
	Key   item.Item
	Fit   func(t *schema.Table) error // see Get

	Before *history.Revision // with its Stamp and N: the changes before it; nil for the newest
	Limit  int
}

// HistoryPage is the result of an ItemHistory.
type HistoryPage struct {
	history.Revisions
	Table    *schema.Table
	KeptFrom time.Time // all changes from then on are recorded
	Consumed capacity.Consumed
}

// ReadHistory reads a page of an item's changes. They consume what a query of their
// images consumes.
func (d *DB) ReadHistory(ctx context.Context, h ItemHistory) (HistoryPage, error) {
	t, at, err := d.openItem(h.Table, h.Key, h.Fit)
	if err != nil {
		return HistoryPage{}, err
	}
	bill := billOf(ctx)
	if err := d.admitRead(bill, t, at); err != nil {
		return HistoryPage{}, err
	}
	now := d.Now()
	r, err := d.openPast(ctx, t.Table, time.Time{})
	if err != nil {
		return HistoryPage{}, err
	}
	defer r.Close()
	from, since, err := r.View().KeptSince(ctx, t.Table, now)
	if err != nil {
		return HistoryPage{}, &NotReadable{Table: t.Name, Err: err}
	}
	found, err := r.ItemChanges(ctx, t.Table, h.Key, from, h.Before, h.Limit, MaxPageBytes)
	if err != nil {
		return HistoryPage{}, err
	}
	size := 0
	for i := range found.Found {
		size += found.Found[i].Before.Size() + found.Found[i].After.Size()
	}
	page := HistoryPage{Revisions: found, Table: t.Table, KeptFrom: since, Consumed: capacity.Consumed{Table: capacity.Read(size, false)}}
	d.consumeRead(bill, t, at, page.Consumed.Table)
	return page, nil
}

// openItem returns the table of an item, and where the item is.
func (d *DB) openItem(table string, key item.Item, fit func(*schema.Table) error) (*table, access, error) {
	t, err := d.open(Get{Table: table, Fit: fit})
	if err != nil {
		return nil, access{}, err
	}
	if err := t.CheckKey(key); err != nil {
		return nil, access{}, err
	}
	return t, access{stored: keyspace.Item(nil, t.Table, key), item: key}, nil
}

// Undo is a plan to find what a window of changes did to the items of a table.
type Undo struct {
	Table string

	// Key selects one item; nil means all.
	Key item.Item
	// Change selects one change of that item, by its Stamp and N, in place of a window.
	Change *history.Revision
	// From and To are seconds: the window begins with the first, and ends with the last.
	From, To time.Time

	After item.Item // Last of the previous page
	Limit int
}

// Undone is an item that changes of the window have changed, and that is not now as it
// was before them.
type Undone struct {
	At            time.Time // of the last change
	Before, After item.Item // the window; nil when absent
	Now           item.Item // nil when absent
}

// Unchanged reports whether the item is as the window has left it.
func (u *Undone) Unchanged() bool { return sameItem(u.Now, u.After) }

// sameItem reports whether two items are equal; either may be nil.
func sameItem(a, b item.Item) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Equal(b)
}

// If returns the condition under which the change of an item is undone: that it is as
// the window has left it.
func (u *Undone) If() func(item.Item) bool {
	after := u.After
	return func(before item.Item) bool { return sameItem(before, after) }
}

// UndonePage is the result of an Undo.
type UndonePage struct {
	Table    *schema.Table
	Items    []Undone
	Already  int       // items that are as they were before the window
	Last     item.Item // the key after which the next page begins; nil at the end
	Consumed capacity.Consumed
}

// MaxUndone is how many items a page of an Undo has at most: as many as a transaction.
const MaxUndone = 100

// FindUndone reads a page of the items that an Undo is about. They are in the order of
// their keys. All items of a page fit in one transaction.
func (d *DB) FindUndone(ctx context.Context, u Undo) (UndonePage, error) {
	t, err := d.use(u.Table)
	if err != nil {
		return UndonePage{}, err
	}
	start, end := keyspace.IndexSpan(t.ID, 0)
	if u.Key != nil {
		if err := t.CheckKey(u.Key); err != nil {
			return UndonePage{}, err
		}
		start = keyspace.Item(nil, t.Table, u.Key)
		end = append(slices.Clone(start), 0)
	}
	if u.After != nil {
		if err := t.CheckKey(u.After); err != nil {
			return UndonePage{}, err
		}
		start = append(keyspace.Item(nil, t.Table, u.After), 0)
	}
	at := access{stored: start, item: u.Key}
	bill := billOf(ctx)
	if err := d.admitRead(bill, t, at); err != nil {
		return UndonePage{}, err
	}
	p := undonePage{UndonePage: UndonePage{Table: t.Table}, limit: u.Limit}
	if u.Change != nil {
		err = d.findChange(ctx, t.Table, u, &p)
	} else {
		err = d.findWindow(ctx, t.Table, u, store.Range{Start: start, End: end}, &p)
	}
	if err != nil {
		return UndonePage{}, err
	}
	p.Consumed.Table = capacity.Read(p.read, false)
	d.consumeRead(bill, t, at, p.Consumed.Table)
	return p.UndonePage, nil
}

// undonePage is a page that is being read.
type undonePage struct {
	UndonePage
	limit     int
	size      int // of the items
	read      int // of all images
	lastTaken item.Item
}

// findWindow reads the items that the window has changed.
func (d *DB) findWindow(ctx context.Context, t *schema.Table, u Undo, span store.Range, p *undonePage) error {
	r, err := d.openPast(ctx, t, u.From.Add(-time.Second)) // the window begins at the end of that second
	if err != nil {
		return err
	}
	defer r.Close()
	if earliest, latest, err := r.View().Readable(ctx, t, u.To, d.Now()); err != nil {
		return &NotReadable{t.Name, u.To, earliest, latest, err}
	}
	past, err := r.Between(ctx, t, u.From, endOf(u.To))
	if err != nil {
		return err
	}
	more, err := past.Changed(ctx, span, p.take)
	if err == nil && more && p.Last == nil {
		p.Last = p.lastTaken
	}
	return err
}

// findChange reads the item of one change.
func (d *DB) findChange(ctx context.Context, t *schema.Table, u Undo, p *undonePage) error {
	r, err := d.openPast(ctx, t, time.Time{})
	if err != nil {
		return err
	}
	defer r.Close()
	c, ok, err := r.Revision(ctx, t, u.Key, u.Change.Stamp, u.Change.N)
	if err != nil {
		return err
	}
	if !ok {
		return apierror.Validation("The item has no recorded change with this SequenceNumber")
	}
	now, err := r.Item(ctx, t, u.Key)
	if err == nil {
		p.take(c.Image(), history.ItemChange{At: c.At, Before: c.Before, After: c.After}, now)
	}
	return err
}

// maxUndoneRead bounds the images that a page of an Undo reads: some need not be undone.
const maxUndoneRead = 16 << 20

// take adds an item to the page, and reports whether there is room for more.
func (p *undonePage) take(keyed item.Item, c history.ItemChange, now item.Item) bool {
	size := max(c.Before.Size(), c.After.Size()) + now.Size()
	if p.read >= maxUndoneRead || len(p.Items) > 0 && (len(p.Items) == p.limit || p.size+size > MaxTransactionBytes) {
		p.Last = p.lastTaken
		return false
	}
	p.read += c.Before.Size() + c.After.Size() + now.Size()
	p.lastTaken = p.Table.Key.Of(keyed)
	switch {
	case sameItem(c.Before, c.After):
	case sameItem(c.Before, now):
		p.Already++
	default:
		p.size += size
		p.Items = append(p.Items, Undone{At: c.At, Before: slices.Clone(c.Before), After: slices.Clone(c.After), Now: slices.Clone(now)})
	}
	return true
}
