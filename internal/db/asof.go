package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// What a table was, and what became of it, is worked out in the order of its
// keys: a stretch of them at a time, with what is known of the changed items in
// it. A stretch is as long as memory allows.

// stretchBytes is how much is kept of the items of one stretch, about.
const stretchBytes = 16 << 20

// Recoverable is the table of that name as it is now, if it is the one with the
// id and its changes back to a time are kept; ErrNoRecovery or ErrNotRestorable
// if not.
func (v *View) Recoverable(ctx context.Context, name string, id uint32, back, now time.Time) (*schema.Table, error) {
	t, err := v.Table(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case t.ID != id:
		return nil, fmt.Errorf("table %s is another one by now", name)
	case !t.Recovery.Enabled:
		return nil, ErrNoRecovery
	}
	if earliest, _ := t.Recovery.Window(now); back.Before(earliest) {
		return nil, ErrNotRestorable
	}
	return t, nil
}

// ItemsBefore goes through the items of a table as they were before a time. An
// item is valid until the next.
func (v *View) ItemsBefore(ctx context.Context, t *schema.Table, end time.Time) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		cut, err := v.cut(ctx, t.ID, end)
		if err != nil {
			yield(nil, err)
			return
		}
		for s, err := range v.stretches(ctx, t, cut, math.MaxUint64) {
			if err != nil {
				yield(nil, err)
				return
			}
			err := s.merge(v.pairs(ctx, s.start, s.end), yield)
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Affected is what became of one item in a window of time.
type Affected struct {
	At            time.Time // of the last change
	Before, After item.Item // at the begin and at the end of the window; nil: it was not there
}

// Affected goes through the items of a table that were changed from a time up
// to, and without, another. What is told is valid until the next.
func (v *View) Affected(ctx context.Context, t *schema.Table, from, to time.Time) iter.Seq2[Affected, error] {
	return func(yield func(Affected, error) bool) {
		first, err := v.cut(ctx, t.ID, from)
		last := uint64(0)
		if err == nil {
			last, err = v.cut(ctx, t.ID, to)
		}
		if err != nil {
			yield(Affected{}, err)
			return
		}
		if first >= last {
			return
		}
		for s, err := range v.stretches(ctx, t, first, last) {
			if err != nil {
				yield(Affected{}, err)
				return
			}
			for _, key := range slices.Sorted(maps.Keys(s.changed)) {
				if !yield(*s.changed[key], nil) {
					return
				}
			}
		}
	}
}

// stretch is some of the keys of a table, and what changed there.
type stretch struct {
	start, end []byte
	changed    map[string]*Affected
	bytes      int
}

// stretches goes through the keys of a table, with the changes of stamps from
// one up to, and without, another.
func (v *View) stretches(ctx context.Context, t *schema.Table, from, to uint64) iter.Seq2[*stretch, error] {
	return func(yield func(*stretch, error) bool) {
		for slot := range keyspace.Slots {
			start, end := keyspace.Segment(t.ID, 0, slot, keyspace.Slots)
			for start != nil {
				s := &stretch{start: start, end: end, changed: make(map[string]*Affected)}
				err := v.collect(ctx, t, slot, from, to, s)
				if !yield(s, err) || err != nil {
					return
				}
				if start = s.end; bytes.Equal(s.end, end) {
					start = nil
				}
			}
		}
	}
}

// collect puts the changes of a slot into a stretch, which becomes shorter when
// they are too many.
func (v *View) collect(ctx context.Context, t *schema.Table, slot int, from, to uint64, s *stretch) error {
	if from >= to {
		return nil
	}
	var key []byte
	for stamp, r := range v.changes(ctx, t.ID, slot, from, false) {
		if r.err != nil {
			return r.err
		}
		if stamp >= to {
			break
		}
		key = keyspace.Item(key[:0], t, r.Image())
		if bytes.Compare(key, s.start) < 0 || s.end != nil && bytes.Compare(key, s.end) >= 0 {
			continue
		}
		if s.note(key, r.Record); s.bytes > v.room {
			s.halve()
		}
	}
	return nil
}

// note adds a change, which is later than those before it.
func (s *stretch) note(key []byte, r change.Record) {
	a := s.changed[string(key)]
	if a == nil {
		a = &Affected{Before: bytes.Clone(r.Before)}
		s.changed[string(key)] = a
		s.bytes += len(key) + len(a.Before) + affectedBytes
	}
	s.bytes += len(r.After) - len(a.After)
	a.At, a.After = r.At, append(a.After[:0], r.After...)
	if r.After == nil {
		a.After = nil
	}
}

// affectedBytes is about what the map takes for one item.
const affectedBytes = 200

// halve ends the stretch in the middle of the items that changed.
func (s *stretch) halve() {
	keys := slices.Sorted(maps.Keys(s.changed))
	if len(keys) < 2 {
		return // an item is never that large
	}
	keys = keys[len(keys)/2:]
	for _, key := range keys {
		a := s.changed[key]
		s.bytes -= len(key) + len(a.Before) + len(a.After) + affectedBytes
		delete(s.changed, key)
	}
	s.end = []byte(keys[0])
}

// errEnough tells that the caller wants no more.
var errEnough = errors.New("enough")

// merge goes through what is there, with the items that changed as they were
// before.
func (s *stretch) merge(there iter.Seq2[store.Pair, error], yield func(item.Item, error) bool) error {
	keys := slices.Sorted(maps.Keys(s.changed))
	// upTo yields the changed items before a key; nil is all.
	upTo := func(key []byte) error {
		for len(keys) > 0 && (key == nil || keys[0] < string(key)) {
			before := s.changed[keys[0]].Before
			keys = keys[1:]
			if before != nil && !yield(before, nil) {
				return errEnough
			}
		}
		return nil
	}
	for pair, err := range there {
		if err != nil {
			return err
		}
		if err := upTo(pair.Key); err != nil {
			return err
		}
		if len(keys) > 0 && keys[0] == string(pair.Key) {
			continue // as it was before comes with the next
		}
		it, err := decode(pair.Value)
		if err != nil {
			return err
		}
		if !yield(it, nil) {
			return errEnough
		}
	}
	return upTo(nil)
}

// pairs are the stored items of some keys.
func (v *View) pairs(ctx context.Context, start, end []byte) iter.Seq2[store.Pair, error] {
	return v.snap.Scan(ctx, store.Range{Start: start, End: end})
}
