package db

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// StreamRetention is how long a change can be read from a stream, and a stream
// after it was disabled or its table deleted.
const StreamRetention = 24 * time.Hour

// shardDuration is how long a shard takes changes unless the options say more.
const shardDuration = 4 * time.Hour

// Stream is a stream that can be read now. Its table may be gone by now.
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

// Streams are the streams of the tables of a name, or with "" of all, in order
// of the tables and their labels. Of one name there may have been several
// tables.
func (d *DB) Streams(table string) []Stream {
	d.catalog.waitSettled(table)
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	var streams []Stream
	add := func(t *schema.Table) {
		for i := range t.Streams {
			if s := &t.Streams[i]; readable(s, d.now()) && (table == "" || t.Name == table) {
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

func (d *DB) streamStatus(s *schema.Stream) string {
	since, doing, done := s.Created, "ENABLING", "ENABLED"
	if s.End != 0 {
		since, doing, done = s.Ended, "DISABLING", "DISABLED"
	}
	if d.now().Before(since.Add(d.delay)) {
		return doing
	}
	return done
}

// readable tells whether changes can be read from a stream.
func readable(s *schema.Stream, now time.Time) bool {
	return s.End == 0 || now.Sub(s.Ended) < StreamRetention
}

// nameStreams gives new streams what tells them from others: a label that no
// other stream of a table of that name has.
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

// Ghosts

// HorizonFrom is the horizon, moved up to a stamp at least if its time has
// come. On a database that rests the horizon stays behind the last write,
// although no other can come before now.
func (d *DB) HorizonFrom(ctx context.Context, stamp uint64) (uint64, error) {
	horizon, err := d.Horizon(ctx)
	if err != nil || horizon >= stamp || StampAt(d.now()) < stamp {
		return horizon, err
	}
	key := keyspace.Meta("horizon")
	err = d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Set(key, []byte{formatHorizon})
		return nil
	})
	if errors.Is(err, store.ErrFull) {
		return horizon, nil // what is there can be read all the same
	}
	if err != nil {
		return 0, err
	}
	return d.Horizon(ctx)
}

// formatHorizon is all that stands in the record whose writing moves the
// horizon.
const formatHorizon = 1
