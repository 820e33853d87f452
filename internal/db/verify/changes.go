package verify

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// slotCheck checks the changes of one slot of a table: that each record can be
// decoded and belongs there, that the changes of an item follow from each other,
// and that the newest leads to the item that is stored.
//
// It follows the changes by hashes of keys and images. An item whose hashes do not fit
// is damaged, or was written meanwhile, since each part has its own snapshot. So it
// reads the slot a second time for these items, the suspects, and reports what differs
// again: every write of an item is visible in the second look if a later one of that
// item was in the first. Each look ends with the newest change at its beginning, since
// changes may be added faster than they are read. When there are too many items to follow at a time, the slot is
// read in several rounds, each for a range of the hashes of keys.
type slotCheck struct {
	w     *Walk
	table uint32
	slot  int
	end   []byte // of the slot

	phase    func(*slotCheck, *part) (done bool, err error)
	at       []byte // the next key of the phase
	logEnd   []byte // of the changes that this look reads; nil before it has read any
	from, to uint64 // the hashes of this round, inclusive
	last     map[uint64]lastChange
	suspects map[uint64]suspect
	confirm  map[uint64]suspect // in the second look, the suspects of the first; otherwise nil
	missing  []lastChange       // in the second look, the changes whose items do not exist
}

// suspect is an item whose changes do not follow from each other, or which differs from
// its newest change.
type suspect struct {
	stamp uint64 // of its newest change
	item  bool   // whether the item differs
}

// lastChange is the newest change of an item.
type lastChange struct {
	stamp uint64
	n     int    // of the change among those of its update
	image uint64 // of the item after it
}

// absentImage stands for the image of an item that does not exist.
const absentImage = 0

// newSlotCheck begins the check of the slot of a change.
func newSlotCheck(w *Walk, table uint32, first []byte) *slotCheck {
	slot, _, _ := keyspace.ChangeOf(first)
	c := &slotCheck{w: w, table: table, slot: slot, end: keyspace.PartEnd(first)}
	c.begin(0)
	return c
}

// begin begins a round at a hash.
func (c *slotCheck) begin(from uint64) {
	c.from, c.to = from, math.MaxUint64
	c.look(nil)
}

// look begins to read the slot for the first time, or a second time for some items.
func (c *slotCheck) look(confirm map[uint64]suspect) {
	c.last, c.suspects, c.confirm = make(map[uint64]lastChange), make(map[uint64]suspect), confirm
	c.phase, c.at, c.logEnd = (*slotCheck).readLog, keyspace.Change(c.table, c.slot, 0, 0), nil
}

// step reads a part. It returns the end of the slot when the check is complete.
func (c *slotCheck) step(p *part) (end []byte, err error) {
	t, err := p.table(c.table)
	if err != nil {
		return nil, err
	}
	if t.Table == nil || t.inFlux {
		return c.end, nil // dropped meanwhile
	}
	done, err := c.phase(c, p)
	if errors.Is(err, store.ErrCorrupt) {
		done, err = true, p.readable(c.at, err)
	}
	c.w.reports.add(p.take())
	switch {
	case err != nil || !done:
		return nil, err
	case len(c.suspects) > 0:
		c.look(c.suspects)
	case c.to == math.MaxUint64:
		return c.end, nil
	default:
		c.begin(c.to + 1)
	}
	return nil, nil
}

// reports reports whether damaged records are reported: those of all items, once.
func (c *slotCheck) reports() bool { return c.from == 0 && c.confirm == nil }

// scan calls fn with the keys from c.at up to end, and moves c.at, for as many
// keys as a part has. It reports whether it has reached the end.
func (c *slotCheck) scan(p *part, end []byte, fn func(store.Pair) error) (done bool, err error) {
	size, first := 0, p.keys
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: c.at, End: end}) {
		if errors.Is(err, store.ErrCorrupt) {
			if c.reports() {
				p.fault(KindUnreadable, c.w.names[c.table], c.at, "the data from %x on cannot be read: %v", c.at, err)
			}
			return true, nil
		}
		if err != nil {
			return false, err
		}
		p.keys++
		c.at = append(append(c.at[:0:0], pair.Key...), 0)
		if err := fn(pair); err != nil {
			return false, err
		}
		if size += len(pair.Value); p.keys-first >= c.w.o.PartKeys || size >= partBytes {
			return false, nil
		}
	}
	return true, nil
}

// readLog is the first phase: the records, and the hash of each item's newest
// image.
func (c *slotCheck) readLog(p *part) (done bool, err error) {
	t, report := p.tables[c.table], c.reports()
	if c.logEnd == nil {
		if c.logEnd, err = c.newestEnd(p); err != nil {
			return false, err
		}
	}
	done, err = c.scan(p, c.logEnd, func(pair store.Pair) error {
		r, key, fault := readChange(t.Table, pair)
		if report {
			c.w.reports.of(t.Name).Changes++
			if fault != "" {
				p.fault(KindChange, t.Name, pair.Key, "the change record at %x %s", pair.Key, fault)
			}
		}
		if fault != "" {
			return nil
		}
		return c.follow(p, t.Table, pair.Key, key, &r)
	})
	if err != nil || !done || t.dropped || !t.Logs() {
		return done, err // without a log, the items may be newer than their changes
	}
	c.phase = (*slotCheck).readItems
	c.at, _ = keyspace.Segment(c.table, 0, c.slot, keyspace.Slots)
	return false, nil
}

// newestEnd returns the end of the changes of the slot as they are now.
func (c *slotCheck) newestEnd(p *part) ([]byte, error) {
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: c.at, End: c.end, Reverse: true, KeysOnly: true}) {
		switch {
		case errors.Is(err, store.ErrCorrupt):
			return c.end, nil // the scan from the start reports it
		case err != nil:
			return nil, err
		}
		return append(bytes.Clone(pair.Key), 0), nil
	}
	return c.at, nil
}

// readChange decodes a change record. It returns the key of its item, or what is
// wrong with it.
func readChange(t *schema.Table, pair store.Pair) (r change.Record, key []byte, fault string) {
	slot, stamp, _ := keyspace.ChangeOf(pair.Key)
	r, err := change.Decode(pair.Value)
	switch {
	case err != nil:
		return r, nil, "cannot be decoded"
	case stamp == 0 || slot >= keyspace.Slots:
		return r, nil, "has no stamp, or no slot"
	case r.Actor != change.Customer && r.Actor != change.Expiry:
		return r, nil, "has an unknown actor"
	}
	for _, image := range []item.Item{r.Before, r.After} {
		if image == nil {
			continue
		}
		if err := item.Check(image); err != nil {
			return r, nil, "has an image that is not an item: " + err.Error()
		}
		if !t.Key.In(image) {
			return r, nil, "has an image without the key attributes of the table"
		}
		own := keyspace.Item(nil, t, image)
		if key != nil && !bytes.Equal(key, own) {
			return r, nil, "has images of two items"
		}
		key = own
	}
	switch {
	case keyspace.Slot(key) != slot:
		return r, nil, "is in the slot of other items"
	case r.Before.Equal(r.After):
		return r, nil, "changes nothing"
	}
	return r, key, ""
}

func (c *slotCheck) image(it item.Item) uint64 {
	if it == nil {
		return absentImage
	}
	return maphash.Bytes(c.w.seed, it) | 1
}

// follow compares a change, at a key of the log, with the previous one of the same item.
func (c *slotCheck) follow(p *part, t *schema.Table, at, key []byte, r *change.Record) error {
	h := maphash.Bytes(c.w.seed, key)
	if h < c.from || h > c.to {
		return nil
	}
	seen, known := c.confirm[h]
	if c.confirm != nil && !known {
		return nil
	}
	_, stamp, n := keyspace.ChangeOf(at)
	if before, ok := c.last[h]; ok && before.image != c.image(r.Before) {
		if c.confirm == nil {
			c.suspects[h] = suspect{}
		} else if stamp <= seen.stamp && recordedSpans(t).together(before.stamp, stamp) {
			if err := c.reportGap(p, t, at, before, r); err != nil {
				return err
			}
		}
	}
	c.last[h] = lastChange{stamp, n, c.image(r.After)}
	if _, ok := c.suspects[h]; ok {
		c.suspects[h] = suspect{stamp: stamp}
	}
	for len(c.last) > c.w.o.MaxTracked && c.to > c.from {
		c.to = c.from + (c.to-c.from)/2 // the next round has the others
		maps.DeleteFunc(c.last, func(h uint64, _ lastChange) bool { return h > c.to })
		maps.DeleteFunc(c.suspects, func(h uint64, _ suspect) bool { return h > c.to })
	}
	return nil
}

// reportGap reports that a change does not follow from the one before, unless that one, and
// possibly others after it, were trimmed since it was read.
func (c *slotCheck) reportGap(p *part, t *schema.Table, at []byte, before lastChange, r *change.Record) error {
	value, ok, err := p.get(keyspace.Change(c.table, c.slot, before.stamp, before.n))
	if err != nil || !ok || value == nil {
		return err
	}
	p.fault(KindChange, t.Name, at, "the change of item %s at %x does not follow from the one before: a change is missing, or an image differs",
		item.Map(t.Key.Of(r.Image())), at)
	return nil
}

// readItems is the second phase: the items, each compared with its newest image.
func (c *slotCheck) readItems(p *part) (done bool, err error) {
	t := p.tables[c.table]
	_, end := keyspace.Segment(c.table, 0, c.slot, keyspace.Slots)
	done, err = c.scan(p, end, func(pair store.Pair) error {
		h := maphash.Bytes(c.w.seed, pair.Key)
		last, ok := c.last[h]
		if !ok {
			return nil
		}
		delete(c.last, h)
		it, err := codec.DecodeItem(pair.Value)
		if err == nil && c.image(it) != last.image && c.differs(t.Table, h, last) {
			c.reportItem(p, t.Table, pair.Key, it)
		}
		return nil // the walk reports the error where it reads the items
	})
	if err != nil || !done {
		return false, err
	}
	for h, last := range c.last {
		if last.image != absentImage && c.differs(t.Table, h, last) {
			c.missing = append(c.missing, last)
		}
	}
	slices.SortFunc(c.missing, func(a, b lastChange) int { return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.n, b.n)) })
	c.phase = (*slotCheck).reportMissing
	return len(c.missing) == 0, nil
}

// differs decides on an item that differs from its newest change. In the first look it
// becomes a suspect. It reports whether that is confirmed: the first look has seen an item
// that is not from its newest change, and the second has found the same newest change. An
// item that did not differ in the first look may have been written since.
func (c *slotCheck) differs(t *schema.Table, h uint64, last lastChange) bool {
	if c.confirm == nil {
		c.suspects[h] = suspect{last.stamp, true}
		return false
	}
	return c.confirm[h] == (suspect{last.stamp, true}) && recordedSpans(t).together(last.stamp, math.MaxUint64)
}

// reportMissing is the last phase: it reports the items that do not exist although their
// newest change says so. The change has their keys.
func (c *slotCheck) reportMissing(p *part) (done bool, err error) {
	t := p.tables[c.table].Table
	for len(c.missing) > 0 && p.keys < c.w.o.PartKeys {
		key := keyspace.Change(c.table, c.slot, c.missing[0].stamp, c.missing[0].n)
		value, ok, err := p.get(key)
		if err != nil {
			return false, err
		}
		p.keys++
		c.missing = c.missing[1:]
		if !ok || value == nil {
			continue // trimmed meanwhile
		}
		if r, own, fault := readChange(t, store.Pair{Key: key, Value: value}); fault == "" {
			c.reportItem(p, t, own, r.Image())
		}
	}
	return len(c.missing) == 0, nil
}

// reportItem reports an item, of which an image is given, that differs from its newest
// change.
func (c *slotCheck) reportItem(p *part, t *schema.Table, key []byte, image item.Item) {
	p.fault(KindChange, t.Name, key, "the item %s differs from its newest change: the change of a later write is missing, or the item was altered", item.Map(t.Key.Of(image)))
}

// stampSpans are ranges of stamps, each from its first element up to, and not
// including, its second.
type stampSpans [][2]uint64

// recordedSpans returns the stamps at which every change of a table is recorded,
// as far as its description tells. A stream that was disabled and enabled again
// leaves a gap between two of them.
func recordedSpans(t *schema.Table) stampSpans {
	var spans stampSpans
	for _, s := range t.Streams {
		spans = append(spans, [2]uint64{s.Start, cmp.Or(s.End, math.MaxUint64)})
	}
	if t.Recovery.Enabled && t.Recovery.Start > 0 {
		spans = append(spans, [2]uint64{t.Recovery.Start, math.MaxUint64})
	}
	slices.SortFunc(spans, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	var joined stampSpans
	for _, s := range spans {
		if n := len(joined); n > 0 && s[0] <= joined[n-1][1] {
			joined[n-1][1] = max(joined[n-1][1], s[1])
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// together reports whether all changes between two stamps are recorded.
func (spans stampSpans) together(first, last uint64) bool {
	return slices.ContainsFunc(spans, func(s [2]uint64) bool {
		return s[0] <= first && (last < s[1] || s[1] == math.MaxUint64)
	})
}
