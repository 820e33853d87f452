package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Mismatch is the error for a backup that differs from the table that it was made
// of.
type Mismatch struct {
	ID  string
	Why string
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("backup %s differs from its table: %s", e.ID, e.Why)
}

// copyCheck compares a backup with the table as it was when the backup was made.
//
// It compares the files with the table, and it restores them, into a database in
// memory that no customer sees, whose tables, items and index entries it compares
// with the originals. Only the first restoredBytes of a table's items are restored,
// so that the memory is bounded; the files are always compared to the end.
type copyCheck struct {
	place blob.Place
	view  *history.View // as of which the backup was made
	table *schema.Table // as the view shows it
	id    string
	now   func() time.Time
	log   *slog.Logger
}

// scratchBytes bounds the items and index entries that are restored, as DynamoDB counts
// their size.
const scratchBytes = 16 << 20

// restoredBytes bounds the items that are restored. Each index may have a copy of all of
// them.
func (c *copyCheck) restoredBytes() int64 { return scratchBytes / int64(1+len(c.table.Indexes)) }

func (c *copyCheck) mismatch(format string, args ...any) error {
	return &Mismatch{c.id, fmt.Sprintf(format, args...)}
}

// run returns a *Mismatch if the backup differs, and a *Damaged if a file cannot be
// read.
func (c *copyCheck) run(ctx context.Context) error {
	m, err := readManifest(ctx, c.place, c.id+suffixManifest)
	if err != nil {
		return missingFile(err)
	}
	if !sameJSON(&m.Table, c.table) {
		return c.mismatch("its description of the table is not the table's")
	}
	if _, err := c.sameItems("the file", read(ctx, c.place, c.id), c.view.Items(ctx, c.table.ID), false); err != nil {
		return err
	}
	return c.restored(ctx, m)
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// sameItems compares two sequences of items. A prefix of the second is enough if
// prefix is set. It returns how many the first has.
func (c *copyCheck) sameItems(what string, got, want iter.Seq2[item.Item, error], prefix bool) (count int64, err error) {
	next, stop := iter.Pull2(want)
	defer stop()
	for it, err := range got {
		if err != nil {
			return count, err
		}
		original, err, ok := next()
		switch {
		case err != nil:
			return count, err
		case !ok:
			return count, c.mismatch("%s has more than the table's %d", what, count)
		case !bytes.Equal(it, original):
			return count, c.mismatch("%s has another item at position %d", what, count+1)
		}
		count++
	}
	if prefix {
		return count, nil
	}
	_, err, ok := next()
	if err == nil && ok {
		err = c.mismatch("%s ends after %d items, and the table has more", what, count)
	}
	return count, err
}

// restored restores the backup into a database of its own, and compares that with
// the table.
func (c *copyCheck) restored(ctx context.Context, m *Manifest) (err error) {
	o := pebble.InMemory()
	o.CacheBytes, o.Log = scratchBytes, c.log
	engine, err := pebble.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	scratch, err := db.Open(ctx, engine, db.Options{
		Clock: clock.Given(c.now), Log: slog.New(warnings{c.log.Handler()}).With("verifying", c.id), OpenBackup: c.firstItems,
		ExpiryInterval: math.MaxInt64, // items that expire now are in the backup, too
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	if err := restoreTable(ctx, scratch, m); err != nil {
		return fmt.Errorf("restore backup %s for verification: %w", c.id, err)
	}
	return c.compareScratch(ctx, scratch, m)
}

// warnings is the log of the database in memory, without its progress.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}
func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }

// firstItems returns the items that are restored.
func (c *copyCheck) firstItems(context.Context, string) (*db.Contents, error) {
	items := func(ctx context.Context) iter.Seq2[item.Item, error] {
		return func(yield func(item.Item, error) bool) {
			size := int64(0)
			for it, err := range read(ctx, c.place, c.id) {
				if err == nil {
					size += int64(it.Size())
				}
				if size > c.restoredBytes() || !yield(it, err) {
					return
				}
			}
		}
	}
	return &db.Contents{Items: items, Close: func() error { return nil }}, nil
}

// compareScratch compares the restored table with the original.
func (c *copyCheck) compareScratch(ctx context.Context, scratch *db.DB, m *Manifest) error {
	view, err := scratch.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	t, err := view.Table(ctx, c.table.Name)
	if err != nil {
		return err
	}
	if want := restoredTable(m); !sameJSON(described(*t), described(want)) || t.Recovery.Days != m.Table.Recovery.Days {
		return c.mismatch("the restored table has another description")
	}
	whole := m.Bytes <= c.restoredBytes()
	if _, err := c.sameItems("the restored table", view.Items(ctx, t.ID), c.view.Items(ctx, c.table.ID), !whole); err != nil {
		return err
	}
	if whole {
		if err := c.compareIndexes(ctx, view, t); err != nil {
			return err
		}
	}
	reports, err := scratch.Verify(ctx, func(string, int64) {})
	if err != nil {
		return err
	}
	for _, r := range reports {
		if r.Faults > 0 {
			return c.mismatch("the restored table is not consistent: %s", r.First[0])
		}
	}
	return nil
}

// compareIndexes compares the index entries of the restored table with those of the
// original, except for indexes that are not complete there.
func (c *copyCheck) compareIndexes(ctx context.Context, view *history.View, t *schema.Table) error {
	for i := range c.table.Indexes {
		x := &c.table.Indexes[i]
		if x.State != "" {
			continue
		}
		at := slices.IndexFunc(t.Indexes, func(y schema.Index) bool { return y.Name == x.Name })
		if at < 0 {
			return c.mismatch("the restored table has no index %s", x.Name)
		}
		if _, err := c.sameItems("index "+x.Name, view.Entries(ctx, t.ID, t.Indexes[at].ID), c.view.Entries(ctx, c.table.ID, x.ID), false); err != nil {
			return err
		}
	}
	return nil
}

// described returns a description without what each table has of its own, and what
// changes while it is used.
func described(t schema.Table) schema.Table {
	t.ID, t.UUID, t.Created, t.LastIndex = 0, "", time.Time{}, 0
	t.State, t.SettledAt, t.Recording, t.RecordingID, t.Recovery, t.Restored = "", time.Time{}, false, "", schema.Recovery{}, schema.Restored{}
	t.Indexes = slices.Clone(t.Indexes)
	for i := range t.Indexes {
		t.Indexes[i].ID = 0
	}
	return t
}
