package db

import (
	"bytes"
	"context"
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// MaxPageBytes ends a page: the item that reaches it is the page's last.
const MaxPageBytes = 1 << 20

// Range reads items in order of their keys: a Query of one partition, or a
// Scan of them all or of a segment.
type Range struct {
	Table string
	Index string // none: the table itself

	Partition []item.Value   // of a query
	Bound     keyspace.Bound // of a query
	Segment   int            // of a scan
	Segments  int            // of a scan; 0 is the same as 1
	Reverse   bool
	After     item.Item // where the page before this one ended

	// Fit, if set, is called with the table that will be read, before anything
	// else is done. It reports whether the range fits the table, and may change
	// the range.
	Fit func(t *schema.Table, r *Range) error

	Limit      int // how many items to look at; 0 is no limit
	Consistent bool

	// Whole fetches the item itself for an entry of a local index that lacks
	// some of its attributes.
	Whole bool
	// Keep tells which items to return; all unless set.
	Keep func(item.Item) bool
	// CountOnly leaves the items out of the page.
	CountOnly bool
	// Take is given the items in their order, if it is set, and the page has
	// none. It must not keep them. None may be shown before Range has returned
	// without an error.
	Take func(item.Item)
}

// Page is the items of a Range.
type Page struct {
	Items    []item.Item // unless Take has them
	Count    int         // items kept
	Scanned  int         // items looked at
	Last     item.Item   // where the next page begins; nil: there is none
	Consumed capacity.Consumed
}

// Range reads one page.
func (d *DB) Range(ctx context.Context, r Range) (Page, error) {
	t, err := d.use(r.Table)
	if err != nil {
		return Page{}, err
	}
	if r.Fit != nil {
		if err := r.Fit(t.Table, &r); err != nil {
			return Page{}, err
		}
	}
	p := pageReader{db: d, ctx: ctx, r: &r}
	if err := p.target.resolve(t.Table, &r); err != nil {
		return Page{}, err
	}
	if err := p.read(); err != nil {
		return Page{}, err
	}
	p.charge()
	return p.page, nil
}

// place is where a range lies.
type rangeTarget struct {
	table *schema.Table
	index *schema.Index // nil: the table itself
	span  store.Range
}

// find fits a range to its table.
func (p *rangeTarget) resolve(t *schema.Table, r *Range) error {
	p.table = t
	var id uint16
	if r.Index != "" {
		x, ok := t.Index(r.Index)
		if !ok {
			return apierror.Validation("The table does not have the specified index: %s", r.Index)
		}
		p.index, id = x, x.ID
	}
	var start, end []byte
	if r.Partition != nil {
		start, end = r.Bound.Span(keyspace.Partition(nil, t.ID, id, r.Partition))
	} else {
		start, end = keyspace.Segment(t.ID, id, r.Segment, max(1, r.Segments))
	}
	if r.After != nil {
		at := keyspace.Item(nil, t, r.After)
		if p.index != nil {
			at = keyspace.Entry(nil, t, p.index, r.After)
		}
		// The key need not be of an item that still exists, nor lie in range.
		if r.Reverse {
			end = slices.MinFunc([][]byte{end, at}, bytes.Compare)
		} else {
			start = slices.MaxFunc([][]byte{start, append(at, 0)}, bytes.Compare)
		}
		if bytes.Compare(start, end) > 0 {
			start = end
		}
	}
	p.span = store.Range{Start: start, End: end, Reverse: r.Reverse}
	return nil
}

// key cuts out of an item what the next page needs to begin behind it.
func (p *rangeTarget) keyOf(it item.Item) item.Item {
	if p.index == nil {
		return p.table.Key.Of(it)
	}
	var b item.Builder
	for name, v := range it.Names() {
		if p.table.Key.Has(string(name)) || p.index.Key.Has(string(name)) {
			b.Add(name, v)
		}
	}
	return b.Item()
}

// pageReader fills a page.
type pageReader struct {
	db     *DB
	ctx    context.Context
	snap   store.Snapshot // when more is read than the range
	r      *Range
	target rangeTarget

	page       Page
	err        error
	bytes      int     // of the items or entries looked at
	fetchUnits float64 // of the items fetched for entries
}

// read goes through the range until the page is full.
func (p *pageReader) read() error {
	if !p.r.Whole {
		if err := p.db.engine.ReadRange(p.ctx, p.target.span, p.next); err != nil {
			return err
		}
		return p.err
	}
	snap, err := p.db.engine.Snapshot(p.ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	p.snap = snap
	for pair, err := range snap.Scan(p.ctx, p.target.span) {
		if err != nil {
			return err
		}
		if !p.next(pair) {
			break
		}
	}
	return p.err
}

// next looks at the next stored item or entry, and tells whether there is room
// for another.
func (p *pageReader) next(pair store.Pair) (more bool) {
	it, err := codec.DecodeItem(pair.Value)
	if err != nil {
		p.err = err
		return false
	}
	p.page.Scanned++
	p.bytes += it.Size()
	if err := p.take(it); err != nil {
		p.err = err
		return false
	}
	if p.full() {
		p.page.Last = p.target.keyOf(it)
		return false
	}
	return true
}

// take puts an item into the page, if it is asked for.
func (p *pageReader) take(it item.Item) error {
	if p.r.Whole {
		var err error
		if it, err = p.fetch(it); err != nil {
			return err
		}
	}
	if p.db.hidden(p.target.table, it) || p.r.Keep != nil && !p.r.Keep(it) {
		return nil
	}
	p.page.Count++
	switch {
	case p.r.CountOnly:
	case p.r.Take != nil:
		p.r.Take(it)
	default:
		p.page.Items = append(p.page.Items, slices.Clone(it)) // the next overwrites it
	}
	return nil
}

// fetch reads the item that an entry stands for. Each is a read of its own.
func (p *pageReader) fetch(entry item.Item) (item.Item, error) {
	values, err := p.snap.Get(p.ctx, keyspace.Item(nil, p.target.table, entry))
	if err != nil {
		return nil, err
	}
	it, err := codec.DecodeItem(values[0])
	if err == nil {
		p.fetchUnits += capacity.Read(it.Size(), p.r.Consistent)
	}
	return it, err
}

func (p *pageReader) full() bool {
	return p.page.Scanned == p.r.Limit || p.bytes >= MaxPageBytes
}

func (p *pageReader) charge() {
	units := capacity.Read(p.bytes, p.r.Consistent)
	if x := p.target.index; x != nil {
		p.page.Consumed.Table = p.fetchUnits
		p.page.Consumed.Charge(x.Name, x.Global, units)
		return
	}
	p.page.Consumed.Table = units
}
