package history

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// A page of the past needs the changes of its key range since then, and the change log
// is ordered by time: it is read from that time on. So the changes of a key range are
// kept between requests (Recent), where the next page finds them, and reads only what
// was added to the log. A request that may read no more of the log returns Unread; when
// it is repeated, it continues.

// ErrBusy is returned when as many reads of the past are running as may run at a time.
var ErrBusy = errors.New("other reads of the past are running")

// Unread is returned when a read of the past has read as much of the change log as one
// request may. When it is repeated, it continues there.
type Unread struct {
	Progress float64 // from 0 to 1: how much of the log of this key range is read
}

func (e *Unread) Error() string {
	return fmt.Sprintf("%d %% of the changes since then are read", int(100*e.Progress))
}

// Past is a table, or one of its indexes, as it was before a time; or what has changed
// there between two times.
type Past struct {
	view    *View
	table   *schema.Table
	index   *schema.Index // nil for the table itself
	id      rangeID
	horizon uint64 // no change with a smaller stamp is missing in the view
	opened  uint64 // see Recent
	recent  *Recent
	left    int // bytes of the change log that may still be read
}

// rangeID says what a key range is of.
type rangeID struct {
	table    uint32
	index    uint16
	from, to uint64 // the stamps of the changes that count
	reverse  bool
	window   bool // it is to find the last changes, too
}

// Before returns a table or an index as it was before a time, for which Restorable has
// returned nil.
func (r *Reader) Before(ctx context.Context, t *schema.Table, x *schema.Index, end time.Time) (*Past, error) {
	cut, err := r.view.cut(ctx, t.ID, end)
	if err != nil {
		return nil, err
	}
	return r.past(t, x, cut, math.MaxUint64), nil
}

// IsPresent reports whether nothing has changed since then.
func (p *Past) IsPresent() bool { return p.id.from == math.MaxUint64 }

// Between returns what has changed in a table from a time up to, and not including,
// another.
func (r *Reader) Between(ctx context.Context, t *schema.Table, from, to time.Time) (*Past, error) {
	first, err := r.view.cut(ctx, t.ID, from)
	if err != nil {
		return nil, err
	}
	last, err := r.view.cut(ctx, t.ID, to)
	if err != nil {
		return nil, err
	}
	p := r.past(t, nil, first, max(first, last))
	p.id.window = true
	return p, nil
}

func (r *Reader) past(t *schema.Table, x *schema.Index, from, to uint64) *Past {
	p := &Past{view: r.view, table: t, index: x, id: rangeID{table: t.ID, from: from, to: to}, horizon: r.horizon, opened: r.opened, recent: r.recent, left: r.recent.LogBytes}
	if x != nil {
		p.id.index = x.ID
	}
	return p
}

// Read calls fn with the items or the entries of a span as they were, in order, until
// it returns false. whole returns the item of an entry. An item is valid until the next.
//
// It reads at least one item if there is one, unless it returns an Unread. It returns
// more if it has not read the whole span although fn wants more: after the last item.
func (p *Past) Read(ctx context.Context, span store.Range, fn func(key []byte, it item.Item, whole func() (item.Item, error)) bool) (more bool, err error) {
	p.id.reverse = span.Reverse
	read := 0
	for bytes.Compare(span.Start, span.End) < 0 {
		if p.recent.skipAbsent(p.id, &span) {
			continue
		}
		r, err := p.changedIn(ctx, span)
		if unread := (*Unread)(nil); errors.As(err, &unread) && read > 0 {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		covered := r.of(span)
		n, stopped, err := p.merge(ctx, r, covered, fn)
		p.recent.put(r, p.recent.now())
		if err != nil || stopped {
			return false, err
		}
		if n == 0 && p.id.from != math.MaxUint64 { // which stands for the present of any view
			p.recent.addAbsent(p.id, covered)
		}
		read += n
		if span.Reverse {
			span.End = covered.Start
		} else {
			span.Start = covered.End
		}
	}
	return false, nil
}

// Changed calls fn with the net changes of the items of a span, in order, until it
// returns false: an image that has the item's key, the item before the first and after
// the last change, and as it is now. They are valid until the next. It returns more as
// Read does.
func (p *Past) Changed(ctx context.Context, span store.Range, fn func(keyed item.Item, c ItemChange, now item.Item) bool) (more bool, err error) {
	read := 0
	for bytes.Compare(span.Start, span.End) < 0 {
		r, err := p.changedIn(ctx, span)
		if unread := (*Unread)(nil); errors.As(err, &unread) && read > 0 {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		covered := r.of(span)
		n, stopped, err := p.netChanges(ctx, r, covered, fn)
		p.recent.put(r, p.recent.now())
		if err != nil || stopped {
			return false, err
		}
		read += n
		span.Start = covered.End
	}
	return false, nil
}

func (p *Past) netChanges(ctx context.Context, r *changedRange, span store.Range, fn func(keyed item.Item, c ItemChange, now item.Item) bool) (n int, stopped bool, err error) {
	var changed []*pastItem
	for _, it := range r.changed {
		if it.key >= string(span.Start) && it.key < string(span.End) {
			changed = append(changed, it)
		}
	}
	slices.SortFunc(changed, func(a, b *pastItem) int { return strings.Compare(a.key, b.key) })
	for batch := range slices.Chunk(changed, imageBatch) {
		var at []logPosition
		keys := make([][]byte, len(batch))
		for i, it := range batch {
			at, keys[i] = append(at, it.first, it.last), []byte(it.key)
		}
		records, err := p.view.records(ctx, p.table.ID, keyspace.Slot(span.Start), at...)
		if err != nil {
			return n, false, err
		}
		present, err := p.view.snap.Get(ctx, keys...)
		if err != nil {
			return n, false, err
		}
		for i := range batch {
			first, last := &records[2*i], &records[2*i+1]
			now, err := codec.DecodeItem(present[i])
			if err != nil {
				return n, false, err
			}
			if n++; !fn(first.Image(), ItemChange{At: last.At, Before: first.Before, After: last.After}, now) {
				return n, true, nil
			}
		}
	}
	return n, false, nil
}

// changedRange is a part of the keys of a table or an index, and the items that have
// changed there.
type changedRange struct {
	rangeID
	start, end []byte
	slot       int                    // the first of the change log
	slots      int                    // of the change log, from that on
	next       [keyspace.Slots]uint64 // the log of each slot is read up to this stamp
	known      bool                   // no more needs to be read
	changed    map[string]*pastItem   // by their keys in the table
	bytes      int                    // of changed, approximately
	sorted     []*pastItem            // those that were in the range, in order; nil if not known

	shared uint64 // see Recent
}

// pastItem is an item that has changed.
type pastItem struct {
	key         string // in the table
	slot        int
	first, last logPosition // its changes
	entry       string      // where it was before the first change; "" if not in the range
	edge        string      // of all its entries in the range the first, or in a reverse range the last
}

// pastItemBytes is about what an item takes in addition to its keys.
const pastItemBytes = 240

// of returns the part of a span that the range covers.
func (r *changedRange) of(span store.Range) store.Range {
	if bytes.Compare(r.start, span.Start) > 0 {
		span.Start = r.start
	}
	if bytes.Compare(r.end, span.End) < 0 {
		span.End = r.end
	}
	return span
}

func (r *changedRange) contains(key []byte) bool {
	return bytes.Compare(key, r.start) >= 0 && bytes.Compare(key, r.end) < 0
}

// changedIn returns the changes of a range that begins where the span does, or ends
// there if it is reverse. It takes the range from those that were read recently.
func (p *Past) changedIn(ctx context.Context, span store.Range) (*changedRange, error) {
	r := p.recent.take(p.id, span, p.opened)
	if r == nil {
		r = &changedRange{rangeID: p.id, start: span.Start, end: span.End, slots: keyspace.Slots, changed: make(map[string]*pastItem)}
		if p.index == nil || !p.index.Global { // the changes of a partition are in one slot
			at := span.Start
			r.slot, r.slots = keyspace.Slot(at), 1
			if _, end := keyspace.Segment(p.id.table, p.id.index, r.slot, keyspace.Slots); bytes.Compare(end, r.end) < 0 {
				r.end = end
			}
		}
	}
	if err := p.collect(ctx, r); err != nil {
		p.recent.put(r, p.recent.now())
		return nil, err
	}
	return r, nil
}

// collect reads the changes into a range, which it shortens if they take too much memory.
func (p *Past) collect(ctx context.Context, r *changedRange) error {
	if r.known {
		return nil
	}
	one := p.index == nil && !p.id.window && bytes.Equal(r.end, append(bytes.Clone(r.start), 0))
	readTo := min(p.horizon, p.id.to)
	for slot := r.slot; slot < r.slot+r.slots; slot++ {
		r.next[slot] = max(r.next[slot], p.id.from)
		for c, err := range p.view.changes(ctx, p.id.table, slot, r.next[slot]) {
			if err != nil {
				return err
			}
			if c.stamp >= p.id.to {
				break
			}
			if p.left <= 0 {
				r.next[slot] = max(r.next[slot], min(c.stamp, readTo))
				return r.unread(readTo)
			}
			p.left -= recordBytes + len(c.Before) + len(c.After)
			p.add(r, slot, &c)
			if r.bytes > p.view.MaxBytes {
				r.halve()
			}
			if one && len(r.changed) > 0 {
				r.known = true // how the item was follows from its first change
				return nil
			}
		}
		r.next[slot] = max(r.next[slot], readTo)
	}
	return nil
}

// recordBytes is about what a record takes in addition to its images.
const recordBytes = 64

// unread returns how much of the log is read.
func (r *changedRange) unread(to uint64) *Unread {
	all, read := 0.0, 0.0
	for slot := r.slot; slot < r.slot+r.slots; slot++ {
		all += float64(to - min(to, r.from))
		read += float64(max(r.next[slot], r.from) - min(r.next[slot], r.from))
	}
	if all == 0 {
		return &Unread{}
	}
	return &Unread{Progress: min(1, read/all)}
}

// add adds a change, if the item was in the range before or after it.
//
// If the range does not have the item yet, then either this is its first change, or it
// was not in the range before this change, and so not before the first.
func (p *Past) add(r *changedRange, slot int, c *logged) {
	before, after := p.entryKey(c.Before), p.entryKey(c.After)
	was, is := before != nil && r.contains(before), after != nil && r.contains(after)
	if !was && !is {
		return
	}
	key := before
	if p.index != nil || key == nil {
		key = keyspace.Item(nil, p.table, c.Image())
	}
	it := r.changed[string(key)]
	if it == nil {
		it = &pastItem{key: string(key), slot: slot, first: c.logPosition}
		if was {
			it.entry = it.key
			if p.index != nil {
				it.entry = string(before)
			}
			it.edge = it.entry
		}
		r.changed[it.key] = it
		r.sorted = nil
		r.bytes += it.bytes()
	}
	if it.last = c.logPosition; is && (it.edge == "" || (string(after) < it.edge) != r.reverse && string(after) != it.edge) {
		r.bytes -= it.bytes()
		if it.edge = it.key; p.index != nil {
			it.edge = string(after)
		}
		r.bytes += it.bytes()
	}
}

// entryKey returns the key of an item in the table or the index; nil if it has none.
func (p *Past) entryKey(it item.Item) []byte {
	switch {
	case it == nil:
		return nil
	case p.index == nil:
		return keyspace.Item(nil, p.table, it)
	case p.index.Key.In(it):
		return keyspace.Entry(nil, p.table, p.index, it)
	}
	return nil
}

func (it *pastItem) bytes() int { return pastItemBytes + len(it.key) + len(it.entry) + len(it.edge) }

// halve removes the half of the items that is farther from where the range is read
// first, and ends the range before them.
func (r *changedRange) halve() {
	items := make([]*pastItem, 0, len(r.changed))
	for _, it := range r.changed {
		items = append(items, it)
	}
	if len(items) < 2 {
		return // MaxBytes is larger than any item's keys
	}
	slices.SortFunc(items, func(a, b *pastItem) int {
		if r.reverse {
			a, b = b, a
		}
		return strings.Compare(a.edge, b.edge)
	})
	kept, removed := items[:len(items)/2], items[len(items)/2:]
	if r.reverse {
		r.start = append([]byte(removed[0].edge), 0)
	} else {
		r.end = []byte(removed[0].edge)
	}
	for _, it := range removed {
		r.bytes -= it.bytes()
		delete(r.changed, it.key)
	}
	for _, it := range kept {
		if it.entry != "" && !r.contains([]byte(it.entry)) {
			r.bytes -= len(it.entry)
			it.entry = ""
		}
	}
	r.sorted = nil
}

// inOrder returns the items that were in the span, in its order.
func (r *changedRange) inOrder(span store.Range) []*pastItem {
	if r.sorted == nil {
		r.sorted = []*pastItem{}
		for _, it := range r.changed {
			if it.entry != "" {
				r.sorted = append(r.sorted, it)
			}
		}
		slices.SortFunc(r.sorted, func(a, b *pastItem) int { return strings.Compare(a.entry, b.entry) })
	}
	find := func(key []byte) int {
		i, _ := slices.BinarySearchFunc(r.sorted, string(key), func(it *pastItem, key string) int { return cmp.Compare(it.entry, key) })
		return i
	}
	found := r.sorted[find(span.Start):find(span.End)]
	if span.Reverse {
		found = slices.Clone(found)
		slices.Reverse(found)
	}
	return found
}

// merge calls fn with the present items of a span that have not changed, and those that
// have as they were.
func (p *Past) merge(ctx context.Context, r *changedRange, span store.Range, fn func([]byte, item.Item, func() (item.Item, error)) bool) (n int, stopped bool, err error) {
	past := r.inOrder(span)
	var images []item.Item // of the first of past
	// upTo calls fn with the items up to a key, or with nil all of them.
	upTo := func(key []byte) error {
		for len(past) > 0 && !stopped && (key == nil || (past[0].entry < string(key)) != span.Reverse || past[0].entry == string(key)) {
			if len(images) == 0 {
				if images, err = p.images(ctx, past[:min(len(past), imageBatch)]); err != nil {
					return err
				}
			}
			it, whole := images[0], images[0]
			if p.index != nil {
				it = p.table.Entry(p.index, whole)
			}
			entry := []byte(past[0].entry)
			past, images = past[1:], images[1:]
			n++
			stopped = !fn(entry, it, func() (item.Item, error) { return whole, nil })
		}
		return nil
	}
	var key []byte
	for pair, err := range p.view.snap.Scan(ctx, span) {
		if err != nil {
			return n, false, err
		}
		if err := upTo(pair.Key); err != nil || stopped {
			return n, stopped, err
		}
		it, err := codec.DecodeItem(pair.Value)
		if err != nil {
			return n, false, fmt.Errorf("load item of table %s: %w", p.table.Name, err)
		}
		if key = append(key[:0], pair.Key...); p.index != nil {
			key = keyspace.Item(key[:0], p.table, it)
		}
		if _, changed := r.changed[string(key)]; changed {
			continue
		}
		n++
		whole := func() (item.Item, error) { return p.present(ctx, key) }
		if !fn(pair.Key, it, whole) {
			return n, true, nil
		}
	}
	err = upTo(nil)
	return n, stopped, err
}

// images returns items before their first changes.
func (p *Past) images(ctx context.Context, items []*pastItem) ([]item.Item, error) {
	found := make([]item.Item, 0, len(items))
	for len(items) > 0 {
		n, at := 0, []logPosition(nil)
		for ; n < len(items) && items[n].slot == items[0].slot; n++ {
			at = append(at, items[n].first)
		}
		records, err := p.view.records(ctx, p.table.ID, items[0].slot, at...)
		if err != nil {
			return nil, err
		}
		for i := range records {
			found = append(found, records[i].Before)
		}
		items = items[n:]
	}
	return found, nil
}

// present returns an item as it is in the view.
func (p *Past) present(ctx context.Context, key []byte) (item.Item, error) {
	values, err := p.view.snap.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return codec.DecodeItem(values[0])
}
