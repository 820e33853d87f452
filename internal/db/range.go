package db

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// MaxPageBytes limits a page: the item that reaches it is the last of the page.
const MaxPageBytes = 1 << 20

// Range is a plan to read items in the order of their keys: a Query of one
// partition, or a Scan of all partitions or of a segment.
type Range struct {
	Table string
	Index string // empty for the table itself

	Partition []item.Value   // of a query
	Bound     keyspace.Bound // of a query
	Segment   int            // of a scan
	Segments  int            // of a scan; 0 means 1
	Reverse   bool
	After     item.Item // Last of the previous page

	// Fit, if set, is called first, with the table. It returns a fault if the
	// range does not fit the table, and may change the range.
	Fit func(t *schema.Table, r *Range) error

	Limit      int // items to scan; 0 for no limit
	Consistent bool

	// At, if it is not zero, is a second: the items are read as they were at its end.
	At time.Time

	// Whole fetches the item of each entry of a local index, for attributes that
	// the index does not project.
	Whole bool
	// Keep reports whether to return an item, and whether the page ends with it.
	// It defaults to all items.
	Keep func(item.Item) (kept, last bool)
	// CountOnly omits the items from the page.
	CountOnly bool
	// Take, if set, gets the items in order, instead of the page. It must not
	// retain them, and must not show any before Range has returned without
	// an error. An error that it returns ends the Range.
	Take func(item.Item) error
}

// Page is the result of a Range.
type Page struct {
	Items    []item.Item // nil with Take or CountOnly
	Count    int         // items kept
	Scanned  int         // items or entries read
	Last     item.Item   // the key after which the next page begins; nil at the end
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
	at := access{index: p.target.indexID(), stored: p.target.span.Start, partition: r.Partition}
	bill := billOf(ctx)
	if err := d.admitRead(bill, t, at); err != nil {
		return Page{}, err
	}
	f, early := bill.faults(), false
	if f != nil {
		early = r.endEarly(f)
	}
	p.maxUnits = d.readableUnits(t, at)
	p.maxBytes = min(MaxPageBytes, capacity.ReadableBytes(p.maxUnits, r.Consistent))
	if r.Partition == nil {
		p.partitions = t.Partitions()
		p.scan = capacity.Scan{Consistent: r.Consistent, Partition: keyspace.PartitionOf(p.target.span.Start, p.partitions)}
		if t.limits != nil {
			p.scan.Each = func(partition int, units float64) { d.chargeScan(bill, t, at.index, partition, p.partitions, units) }
		}
	}
	if err := p.read(f); err != nil {
		return Page{}, err
	}
	if early && p.page.Last != nil {
		f.PageEnded(p.page.Scanned)
	}
	p.charge()
	if p.partitions > 0 {
		at.scanned = p.scannedHashes()
	}
	d.meterRead(bill, t, at, p.page.Consumed.Total())
	if t.limits != nil {
		p.chargeLimits(bill, t, at)
	}
	return p.page, nil
}

// scannedHashes returns the hashes that the page of a scan has read.
func (p *pageReader) scannedHashes() hashSpan {
	read := hashSpan{first: keyspace.Hash(p.target.span.Start), last: math.MaxUint64}
	segments := max(1, p.r.Segments)
	switch {
	case p.page.Last != nil:
		read.last = keyspace.Hash(p.target.stored(p.page.Last))
	case p.r.Segment+1 < segments:
		read.last = keyspace.Hash(p.target.span.End) - 1
	}
	return read
}

// chargeLimits charges the page to the limits of the table. A scan has charged the
// partitions before its last one.
func (p *pageReader) chargeLimits(b *Bill, t *table, at access) {
	if p.partitions == 0 {
		p.db.chargeRead(b, t, at, p.page.Consumed.Total())
		return
	}
	p.db.chargeScan(b, t, at.index, p.scan.Partition, p.partitions, p.scan.Present()+p.fetchUnits)
}

// rangeTarget is the table or index that a Range reads, and the span of its keys.
type rangeTarget struct {
	table *schema.Table
	index *schema.Index // nil for the table itself
	span  store.Range
}

// stored returns where an item or an entry with a key is.
func (p *rangeTarget) stored(key item.Item) []byte {
	if p.index != nil {
		return keyspace.Entry(nil, p.table, p.index, key)
	}
	return keyspace.Item(nil, p.table, key)
}

// resolve finds the index and the keys of a range.
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
		at := p.stored(r.After)
		// The item may have been deleted, and its key may be outside the range.
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

// indexID returns the id of the index; 0 is the table.
func (p *rangeTarget) indexID() uint16 {
	if p.index == nil {
		return 0
	}
	return p.index.ID
}

// keyOf returns the attributes of an item that the next page needs to begin after
// it.
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

// pageReader reads one page.
type pageReader struct {
	db     *DB
	ctx    context.Context
	snap   store.Snapshot // only if items are fetched
	r      *Range
	target rangeTarget

	scan       capacity.Scan // of a scan
	partitions int           // of a scan; 0 for a query

	page       Page
	err        error
	whole      func() (item.Item, error) // reads the item of the present entry of the past
	last       bool                      // Keep ends the page
	bytes      int                       // of the items or entries read
	maxBytes   int                       // the page ends with the item that reaches it
	maxUnits   float64                   // the page ends with the fetched item that reaches it
	fetchUnits float64                   // for the items fetched
}

// read scans the range until the page is full.
func (p *pageReader) read(f Faults) error {
	if !p.r.At.IsZero() {
		return p.readPast()
	}
	if f != nil && !p.r.Consistent {
		if done, err := p.readLagging(f); done || err != nil {
			return err
		}
	}
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

// next processes one stored item or entry, and reports whether to read another.
func (p *pageReader) next(pair store.Pair) (more bool) {
	it, err := decodeItem(p.target.table, pair.Key, pair.Value)
	if err != nil {
		p.err = err
		return false
	}
	return p.nextItem(pair.Key, it)
}

// nextItem processes one item or entry, and reports whether to read another.
func (p *pageReader) nextItem(key []byte, it item.Item) (more bool) {
	p.page.Scanned++
	size := it.Size()
	p.bytes += size
	if p.partitions > 0 {
		p.scan.Enter(keyspace.PartitionOf(key, p.partitions))
		p.scan.Add(size)
	}
	if err := p.take(it); err != nil {
		p.err = err
		return false
	}
	if p.full() {
		if !p.isSingle() {
			p.page.Last = p.target.keyOf(it)
		}
		return false
	}
	return true
}

// take adds an item to the page, unless it is hidden or not kept.
func (p *pageReader) take(it item.Item) error {
	if p.r.Whole {
		var err error
		if it, err = p.fetch(it); err != nil {
			return err
		}
	}
	if p.r.At.IsZero() && p.db.hidden(p.target.table, it) {
		return nil
	}
	if p.r.Keep != nil {
		var kept bool
		if kept, p.last = p.r.Keep(it); !kept {
			return nil
		}
	}
	p.page.Count++
	switch {
	case p.r.CountOnly:
	case p.r.Take != nil:
		return p.r.Take(it)
	default:
		p.page.Items = append(p.page.Items, slices.Clone(it)) // its bytes are valid until the next
	}
	return nil
}

// fetch reads the item of an index entry. Each is charged as a separate read.
func (p *pageReader) fetch(entry item.Item) (item.Item, error) {
	if p.whole != nil {
		it, err := p.whole()
		if err == nil {
			p.fetchUnits += capacity.Read(it.Size(), p.r.Consistent)
		}
		return it, err
	}
	key := keyspace.Item(nil, p.target.table, entry)
	values, err := p.snap.Get(p.ctx, key)
	if err != nil {
		return nil, err
	}
	it, err := decodeItem(p.target.table, key, values[0])
	if err == nil {
		p.fetchUnits += capacity.Read(it.Size(), p.r.Consistent)
	}
	return it, err
}

// isSingle reports whether the range has one item at most: a query of a table
// without a sort key, after whose item no page can begin.
func (p *pageReader) isSingle() bool {
	return p.r.Partition != nil && p.target.index == nil && len(p.target.table.Key.Sort) == 0
}

func (p *pageReader) full() bool {
	return p.page.Scanned == p.r.Limit || p.bytes >= p.maxBytes || p.fetchUnits >= p.maxUnits || p.last
}

func (p *pageReader) charge() {
	units := p.units()
	if x := p.target.index; x != nil {
		p.page.Consumed.Table = p.fetchUnits
		p.page.Consumed.Charge(x.Name, x.Global, units)
		return
	}
	p.page.Consumed.Table = units
}

// units is the cost of what was read, without the items fetched.
func (p *pageReader) units() float64 {
	if p.partitions == 0 {
		return capacity.Read(p.bytes, p.r.Consistent)
	}
	if p.page.Last == nil {
		p.scan.Enter(keyspace.LastPartition(p.r.Segment, max(1, p.r.Segments), p.partitions))
	}
	return p.scan.Units()
}
