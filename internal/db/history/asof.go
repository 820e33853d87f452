package history

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// The past is computed in key order, one key range after the other: the changes
// of the range are collected in memory, and merged with the items that are there
// now. A range ends where its changes would take more than MaxBytes.

// ItemsBefore returns the items of a table as they were before a time, in order
// of their keys. An item is valid until the next.
func (v *View) ItemsBefore(ctx context.Context, t *schema.Table, end time.Time) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		cut, err := v.cut(ctx, t.ID, end)
		if err != nil {
			yield(nil, err)
			return
		}
		for r, err := range v.keyRanges(ctx, t, cut, math.MaxUint64, false) {
			if err == nil {
				err = r.merge(v.snap.Scan(ctx, store.Range{Start: r.start, End: r.end}), yield)
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// ItemChange is the net change of one item in a window of time.
type ItemChange struct {
	At            time.Time // of the last change
	Before, After item.Item // at the start and at the end of the window; nil when absent
}

// Changed returns the items of a table that were changed from a time up to, and
// not including, another. An ItemChange is valid until the next.
func (v *View) Changed(ctx context.Context, t *schema.Table, from, to time.Time) iter.Seq2[ItemChange, error] {
	return func(yield func(ItemChange, error) bool) {
		first, err := v.cut(ctx, t.ID, from)
		last := uint64(0)
		if err == nil {
			last, err = v.cut(ctx, t.ID, to)
		}
		if err != nil {
			yield(ItemChange{}, err)
			return
		}
		if first >= last {
			return
		}
		for r, err := range v.keyRanges(ctx, t, first, last, true) {
			if err != nil {
				yield(ItemChange{}, err)
				return
			}
			for _, key := range slices.Sorted(maps.Keys(r.changed)) {
				if !yield(*r.changed[key], nil) {
					return
				}
			}
		}
	}
}

// keyRange is a part of a table's keys, and what changed there.
type keyRange struct {
	start, end []byte
	changed    map[string]*ItemChange
	bytes      int  // of changed, approximately
	withAfter  bool // whether the images after the changes are kept
}

// keyRanges returns the key ranges of a table, with the changes whose stamps are
// from one up to, and not including, another.
func (v *View) keyRanges(ctx context.Context, t *schema.Table, from, to uint64, withAfter bool) iter.Seq2[*keyRange, error] {
	return func(yield func(*keyRange, error) bool) {
		for slot := range keyspace.Slots {
			start, end := keyspace.Segment(t.ID, 0, slot, keyspace.Slots)
			for start != nil {
				r := &keyRange{start: start, end: end, changed: make(map[string]*ItemChange), withAfter: withAfter}
				err := v.collect(ctx, t, slot, from, to, r)
				if !yield(r, err) || err != nil {
					return
				}
				if start = r.end; bytes.Equal(r.end, end) {
					start = nil
				}
			}
		}
	}
}

// collect reads the changes of a slot into a key range, which it shortens when
// they take too much memory.
func (v *View) collect(ctx context.Context, t *schema.Table, slot int, from, to uint64, into *keyRange) error {
	if from >= to {
		return nil
	}
	var key []byte
	for stamp, r := range v.changes(ctx, t.ID, slot, from) {
		if r.err != nil {
			return r.err
		}
		if stamp >= to {
			break
		}
		key = keyspace.Item(key[:0], t, r.Image())
		if bytes.Compare(key, into.start) < 0 || into.end != nil && bytes.Compare(key, into.end) >= 0 {
			continue
		}
		if into.add(key, r.Record); into.bytes > v.MaxBytes {
			into.halve()
		}
	}
	return nil
}

// add adds a change, which is later than those added before.
func (r *keyRange) add(key []byte, rec change.Record) {
	c := r.changed[string(key)]
	if c == nil {
		c = &ItemChange{Before: bytes.Clone(rec.Before)}
		r.changed[string(key)] = c
		r.bytes += len(key) + len(c.Before) + changeOverhead
	}
	c.At = rec.At
	if !r.withAfter {
		return
	}
	r.bytes -= cap(c.After)
	switch {
	case rec.After == nil:
		c.After = nil
	case len(rec.After) > cap(c.After), len(rec.After) < cap(c.After)/2:
		c.After = bytes.Clone(rec.After)
	default:
		c.After = append(c.After[:0], rec.After...)
	}
	r.bytes += cap(c.After)
}

// changeOverhead is about what the map takes for one item.
const changeOverhead = 200

// halve ends the range in the middle of the items that changed.
func (r *keyRange) halve() {
	keys := slices.Sorted(maps.Keys(r.changed))
	if len(keys) < 2 {
		return // an item is never that large
	}
	keys = keys[len(keys)/2:]
	for _, key := range keys {
		c := r.changed[key]
		r.bytes -= len(key) + len(c.Before) + cap(c.After) + changeOverhead
		delete(r.changed, key)
	}
	r.end = []byte(keys[0])
}

// errStopped is returned by merge when the caller wants no more items.
var errStopped = errors.New("stopped")

// merge yields the present items of the range, with those that changed as they
// were before.
func (r *keyRange) merge(present iter.Seq2[store.Pair, error], yield func(item.Item, error) bool) error {
	keys := slices.Sorted(maps.Keys(r.changed))
	// upTo yields the changed items before a key, or with nil all of them.
	upTo := func(key []byte) error {
		for len(keys) > 0 && (key == nil || keys[0] < string(key)) {
			before := r.changed[keys[0]].Before
			keys = keys[1:]
			if before != nil && !yield(before, nil) {
				return errStopped
			}
		}
		return nil
	}
	for pair, err := range present {
		if err != nil {
			return err
		}
		if err := upTo(pair.Key); err != nil {
			return err
		}
		if len(keys) > 0 && keys[0] == string(pair.Key) {
			continue // its image before the change is yielded with the next key
		}
		it, err := codec.DecodeItem(pair.Value)
		if err != nil {
			return err
		}
		if !yield(it, nil) {
			return errStopped
		}
	}
	return upTo(nil)
}
