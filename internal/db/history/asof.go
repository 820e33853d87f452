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

// The past is computed in key order, one key range after the other: the positions
// of the range's changes in the change log are collected in memory, and the images
// at them are merged with the items that are there now. A range ends where the
// positions would take more than MaxBytes; the next one reads the log again.

// imageBatch is how many changed items are read from the change log at a time.
const imageBatch = 16

// ItemsBefore returns the items of a table as they were before a time, in order
// of their keys. An item is valid until the next.
func (v *View) ItemsBefore(ctx context.Context, t *schema.Table, end time.Time) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		cut, err := v.cut(ctx, t.ID, end)
		if err != nil {
			yield(nil, err)
			return
		}
		for r, err := range v.keyRanges(ctx, t, cut, math.MaxUint64) {
			if err == nil {
				err = r.merge(v.snap.Scan(ctx, store.Range{Start: r.start, End: r.end}), v.before(ctx, r), yield)
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
		for r, err := range v.keyRanges(ctx, t, first, last) {
			if err != nil {
				yield(ItemChange{}, err)
				return
			}
			for c, err := range v.netChanges(ctx, r) {
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// netChanges returns the net changes of a key range, in order of the keys.
func (v *View) netChanges(ctx context.Context, r *keyRange) iter.Seq2[ItemChange, error] {
	return func(yield func(ItemChange, error) bool) {
		for keys := range slices.Chunk(r.keys(), imageBatch) {
			var at []logPosition
			for _, key := range keys {
				at = append(at, r.changed[key].first, r.changed[key].last)
			}
			records, err := v.records(ctx, r.table, r.slot, at...)
			if err != nil {
				yield(ItemChange{}, err)
				return
			}
			for i := 0; i < len(records); i += 2 {
				first, last := records[i], records[i+1]
				if !yield(ItemChange{At: last.At, Before: first.Before, After: last.After}, nil) {
					return
				}
			}
		}
	}
}

// before returns a function that reads the image of an item before its first
// change, given all changed keys from that item's on.
func (v *View) before(ctx context.Context, r *keyRange) func(keys []string) (item.Item, error) {
	var read []change.Record // of the next keys
	return func(keys []string) (item.Item, error) {
		if len(read) == 0 {
			var at []logPosition
			for _, key := range keys[:min(len(keys), imageBatch)] {
				at = append(at, r.changed[key].first)
			}
			var err error
			if read, err = v.records(ctx, r.table, r.slot, at...); err != nil {
				return nil, err
			}
		}
		image := read[0].Before
		read = read[1:]
		return image, nil
	}
}

// keyRange is a part of a table's keys, and where the log has the changes there.
type keyRange struct {
	table      uint32
	slot       int
	start, end []byte
	changed    map[string]*changedItem
	bytes      int // of changed, approximately
}

// changedItem is where the change log has the first and the last change of an
// item.
type changedItem struct{ first, last logPosition }

// keys returns the keys of the changed items, in order.
func (r *keyRange) keys() []string { return slices.Sorted(maps.Keys(r.changed)) }

// keyRanges returns the key ranges of a table, with the changes whose stamps are
// from one up to, and not including, another.
func (v *View) keyRanges(ctx context.Context, t *schema.Table, from, to uint64) iter.Seq2[*keyRange, error] {
	return func(yield func(*keyRange, error) bool) {
		for slot := range keyspace.Slots {
			start, end := keyspace.Segment(t.ID, 0, slot, keyspace.Slots)
			for start != nil {
				r := &keyRange{table: t.ID, slot: slot, start: start, end: end, changed: make(map[string]*changedItem)}
				err := v.collect(ctx, t, from, to, r)
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
func (v *View) collect(ctx context.Context, t *schema.Table, from, to uint64, into *keyRange) error {
	if from >= to {
		return nil
	}
	var key []byte
	for r, err := range v.changes(ctx, t.ID, into.slot, from) {
		if err != nil {
			return err
		}
		if r.stamp >= to {
			break
		}
		key = keyspace.Item(key[:0], t, r.Image())
		if bytes.Compare(key, into.start) < 0 || into.end != nil && bytes.Compare(key, into.end) >= 0 {
			continue
		}
		if into.add(key, r.logPosition); into.bytes > v.MaxBytes {
			into.halve()
		}
	}
	return nil
}

// add adds a change, which is later than those added before.
func (r *keyRange) add(key []byte, at logPosition) {
	c := r.changed[string(key)]
	if c == nil {
		c = &changedItem{first: at}
		r.changed[string(key)] = c
		r.bytes += len(key) + itemOverhead
	}
	c.last = at
}

// itemOverhead is about what an item takes in addition to its key.
const itemOverhead = 128

// halve ends the range in the middle of the items that changed.
func (r *keyRange) halve() {
	keys := r.keys()
	if len(keys) < 2 {
		return // MaxBytes is larger than any item's key
	}
	keys = keys[len(keys)/2:]
	for _, key := range keys {
		r.bytes -= len(key) + itemOverhead
		delete(r.changed, key)
	}
	r.end = []byte(keys[0])
}

// errStopped is returned by merge when the caller wants no more items.
var errStopped = errors.New("stopped")

// merge yields the present items of the range, with those that changed as they
// were before. before returns their images, one after the other.
func (r *keyRange) merge(present iter.Seq2[store.Pair, error], before func(keys []string) (item.Item, error), yield func(item.Item, error) bool) error {
	keys := r.keys()
	// upTo yields the changed items up to and including a key, or with nil all
	// of them.
	upTo := func(key []byte) error {
		for len(keys) > 0 && (key == nil || keys[0] <= string(key)) {
			image, err := before(keys)
			if err != nil {
				return err
			}
			keys = keys[1:]
			if image != nil && !yield(image, nil) {
				return errStopped
			}
		}
		return nil
	}
	for pair, err := range present {
		if err != nil {
			return err
		}
		_, changed := r.changed[string(pair.Key)]
		if err := upTo(pair.Key); err != nil {
			return err
		}
		if changed {
			continue
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
