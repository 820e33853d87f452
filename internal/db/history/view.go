// Package history reads tables as they are, as they were, and what has changed
// between two times.
//
// Restores, backups and exports all read through it.
package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// ErrNoRecovery is returned when a table does not have point-in-time recovery,
// so that its past is not kept.
var ErrNoRecovery = errors.New("point-in-time recovery is not enabled")

// ErrNotRestorable is returned when a time is outside those for which a table's
// past is kept.
var ErrNotRestorable = errors.New("the time is outside the window of point-in-time recovery")

// View shows all tables as they are at one moment, and their past from there. It
// holds resources until it is closed.
type View struct {
	// MaxBytes bounds, approximately, the memory for changed items. It defaults
	// to 16 MB.
	MaxBytes int

	snap store.Snapshot
}

// Open takes a view of now.
func Open(ctx context.Context, engine store.Engine) (*View, error) {
	snap, err := engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return At(snap), nil
}

// At returns the view of a snapshot, which it closes.
func At(snap store.Snapshot) *View { return &View{MaxBytes: 16 << 20, snap: snap} }

// Close releases the view.
func (v *View) Close() error { return v.snap.Close() }

// Table returns the description of a table.
func (v *View) Table(ctx context.Context, name string) (*schema.Table, error) {
	stored, err := v.snap.Get(ctx, keyspace.Catalog(name))
	if err != nil {
		return nil, err
	}
	if stored[0] == nil {
		return nil, apierror.NoTableNamed(name)
	}
	t, err := codec.DecodeTable(stored[0])
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	return t, nil
}

// Tables returns the descriptions of all tables, in order of their names.
func (v *View) Tables(ctx context.Context) (tables []*schema.Table, err error) {
	start, end := keyspace.CatalogSpan()
	for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		t, err := codec.DecodeTable(pair.Value)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", pair.Key[1:], err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// Recoverable returns the description of a table whose past is kept back to a
// time. It returns ErrNoRecovery or ErrNotRestorable if it is not kept, and an
// error if the table of that name does not have the id.
func (v *View) Recoverable(ctx context.Context, name string, id uint32, back, now time.Time) (*schema.Table, error) {
	t, err := v.Table(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case t.ID != id:
		return nil, fmt.Errorf("table %s was deleted and created again", name)
	case !t.Recovery.Enabled:
		return nil, ErrNoRecovery
	}
	runs, err := v.Runs(ctx)
	if err == nil && back.Before(runs.KeptFrom(t.Recovery, now)) {
		err = ErrNotRestorable
	}
	return t, err
}

// Restorable returns nil if a table can be restored to a time, and ErrNoRecovery
// or ErrNotRestorable if not. The zero time stands for now.
func (v *View) Restorable(ctx context.Context, t *schema.Table, at, now time.Time) error {
	if !t.Recovery.Enabled {
		return ErrNoRecovery
	}
	runs, err := v.Runs(ctx)
	if err != nil {
		return err
	}
	if earliest, latest := runs.Window(t.Recovery, now); !at.IsZero() && (at.Before(earliest) || at.After(latest)) {
		return ErrNotRestorable
	}
	return nil
}

// Items returns the items of a table, in order of their keys. An item is valid
// until the next.
func (v *View) Items(ctx context.Context, table uint32) iter.Seq2[item.Item, error] {
	return v.Entries(ctx, table, 0)
}

// Entries returns the entries of an index, in order of their keys. An entry is
// valid until the next.
func (v *View) Entries(ctx context.Context, table uint32, index uint16) iter.Seq2[item.Item, error] {
	start, end := keyspace.IndexSpan(table, index)
	return func(yield func(item.Item, error) bool) {
		for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
			if err != nil {
				yield(nil, err)
				return
			}
			it, err := codec.DecodeItem(pair.Value)
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}
