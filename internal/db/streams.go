package db

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// StreamRetention is how long a change can be read from a stream, and how long a
// stream can be read after it was disabled or its table deleted.
const StreamRetention = 24 * time.Hour

// TrimHorizon returns the first stamp of the changes that can still be read. Changes
// before it may be stored: a clock that is not trusted hides no change that was not
// hidden before.
func (d *DB) TrimHorizon() uint64 { return StampAt(d.trimTime()) }

// trimTime returns the time before which streams are trimmed.
func (d *DB) trimTime() time.Time { return d.clock.AtLeast().Add(-StreamRetention) }

// shardDuration is the default of Options.ShardDuration.
const shardDuration = 4 * time.Hour

// Stream is a stream that can be read. Its table may have been dropped.
type Stream struct {
	schema.Stream
	Table  *schema.Table
	Status string // ENABLING, ENABLED, DISABLING or DISABLED
}

// Stream finds a stream by its table's name and its label.
func (d *DB) Stream(table, label string) (Stream, bool) {
	for _, s := range d.Streams(table) {
		if s.Label == label {
			return s, true
		}
	}
	return Stream{}, false
}

// Streams returns the readable streams of the tables of a name, or of all tables
// if it is "", ordered by table name and label. They may belong to several
// tables of the same name, of which at most one still exists.
func (d *DB) Streams(table string) []Stream {
	d.catalog.waitSettled(table)
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	trimmed := d.trimTime()
	var streams []Stream
	add := func(t *schema.Table) {
		for i := range t.Streams {
			if s := &t.Streams[i]; readable(s, trimmed) && (table == "" || t.Name == table) {
				found := Stream{*s, t, d.streamStatus(s)}
				found.Roll = cmp.Or(s.Roll, shardDuration)
				streams = append(streams, found)
			}
		}
	}
	for _, t := range d.catalog.dropped {
		add(t)
	}
	for _, t := range d.catalog.tables {
		add(t.Table)
	}
	slices.SortFunc(streams, func(a, b Stream) int {
		return cmp.Or(strings.Compare(a.Table.Name, b.Table.Name), strings.Compare(a.Label, b.Label))
	})
	return streams
}

// StreamView is a stream, and its changes, as they were at one moment.
type StreamView struct {
	Stream
	Spans   []schema.ShardSpan
	Horizon uint64 // changes with smaller stamps are final

	snap store.Snapshot
}

// ViewStream returns a view of a stream. Its description may be later than that of s: it
// is read with the changes, so that no change is in it that belongs to a shard of which it
// does not know. The horizon is not before from, if the clock has reached that.
func (d *DB) ViewStream(ctx context.Context, s Stream, from uint64) (v *StreamView, err error) {
	v = &StreamView{Stream: s}
	if s.End != 0 {
		from = 0
	}
	if v.Horizon, err = d.HorizonFrom(ctx, from); err != nil {
		return nil, err
	}
	if v.snap, err = d.engine.Snapshot(ctx); err != nil {
		return nil, err
	}
	values, err := v.snap.Get(ctx, keyspace.Catalog(s.Table.Name))
	if err == nil && values[0] != nil {
		err = d.describeStream(v, values[0])
	}
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	if v.Spans == nil {
		v.Spans = v.Stream.Spans()
	}
	return v, nil
}

// decodedStream is a stream of a stored description.
type decodedStream struct {
	stored []byte // of its table
	table  *schema.Table
	stream schema.Stream
	spans  []schema.ShardSpan
}

// describeStream replaces the description of a stream by the stored one of its table.
func (d *DB) describeStream(v *StreamView, stored []byte) error {
	if was, _ := d.decoded.Load(v.Table.Name); was != nil {
		was := was.(*decodedStream)
		if was.table.ID == v.Table.ID && was.stream.Label == v.Label && bytes.Equal(was.stored, stored) {
			was.describe(v)
			return nil
		}
	}
	t, err := codec.DecodeTable(stored)
	if err != nil {
		return fmt.Errorf("table %s: %w", v.Table.Name, err)
	}
	for i := range t.Streams {
		if s := &t.Streams[i]; t.ID == v.Table.ID && s.Label == v.Label {
			found := &decodedStream{stored, t, *s, s.Spans()}
			found.stream.Roll = cmp.Or(s.Roll, shardDuration)
			found.describe(v)
			d.decoded.Store(t.Name, found)
		}
	}
	return nil
}

func (s *decodedStream) describe(v *StreamView) {
	v.Stream.Stream, v.Table, v.Spans = s.stream, s.table, s.spans
}

// Changes reads changes in the order of their stamps, up to the horizon. next is what to
// read from then on: it begins after the last change that was read, or at the end of the
// range.
func (v *StreamView) Changes(ctx context.Context, r ChangeRange) (changes []Change, next ChangeRange, err error) {
	next = r
	r.To = min(r.To, v.Horizon)
	changes, last, err := r.read(ctx, v.snap)
	switch {
	case err != nil:
		return nil, next, err
	case last != nil:
		next.From, next.FromN = last.Stamp, last.N+1
	case r.To > next.From:
		next.From, next.FromN = r.To, 0
	}
	return changes, next, nil
}

// Close releases the view.
func (v *StreamView) Close() error { return v.snap.Close() }

func (d *DB) streamStatus(s *schema.Stream) string {
	since, doing, done := s.Created, "ENABLING", "ENABLED"
	if s.End != 0 {
		since, doing, done = s.Ended, "DISABLING", "DISABLED"
	}
	if age := d.Now().Sub(since); age >= 0 && age < d.delay { // if it is negative, the clock has gone back
		return doing
	}
	return done
}

// readable reports whether changes can still be read from a stream, of which those
// before a time are trimmed.
func readable(s *schema.Stream, trimmed time.Time) bool {
	return s.End == 0 || s.Ended.After(trimmed)
}

// nameStreams gives each new stream a label that no other stream of a table of
// that name has, and its shard duration.
func (d *DB) nameStreams(t *schema.Table) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	taken := func(label string) bool {
		has := func(t *schema.Table) bool {
			return slices.ContainsFunc(t.Streams, func(s schema.Stream) bool { return s.Label == label })
		}
		for _, dropped := range d.catalog.dropped {
			if dropped.Name == t.Name && has(dropped) {
				return true
			}
		}
		return has(t)
	}
	for i := range t.Streams {
		s := &t.Streams[i]
		if s.Label != "" {
			continue
		}
		at := s.Created.UTC()
		for taken(labelOf(at)) {
			at = at.Add(time.Millisecond)
		}
		s.Label = labelOf(at)
		s.Roll = d.shardDuration
	}
}

func labelOf(at time.Time) string { return at.Format("2006-01-02T15:04:05.000") }

// HorizonFrom returns the horizon. If it is smaller than stamp, and the clock has
// reached the time of stamp, HorizonFrom first moves the horizon forward by
// writing a record: on an idle database it stays just after the last write.
func (d *DB) HorizonFrom(ctx context.Context, stamp uint64) (uint64, error) {
	horizon, err := d.Horizon(ctx)
	if err != nil || horizon >= stamp || StampAt(d.Now()) < stamp {
		return horizon, err
	}
	key := keyspace.Meta("horizon")
	err = d.update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Set(key, []byte{formatHorizon})
		return nil
	})
	if errors.Is(err, store.ErrFull) {
		return horizon, nil // older changes can still be read
	}
	if err != nil {
		return 0, err
	}
	return d.Horizon(ctx)
}

// formatHorizon is the format number, and the whole value, of the record that is
// written to move the horizon.
const formatHorizon = 1
