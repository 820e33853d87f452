package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// All tables at one moment are sent as a stream. The byte 1 precedes the file of
// each table, and the byte 0 ends the stream. The receiver writes one backup for
// each table, and a set that names the backups that belong together.

// backupSet names the backups of all tables at one moment.
type backupSet struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Backups []string  `json:"backups"` // their ids

	// Of a set that a schedule made, the id of its database, its number among the
	// sets of that database, in the order in which they were made whatever the clock
	// said, when all its backups were verified, and what they have together.
	Database string    `json:"database,omitempty"`
	Number   int64     `json:"number,omitempty"`
	Verified time.Time `json:"verified,omitzero"`
	Items    int64     `json:"items,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`

	// Counted says that the database has counted its sets. Older versions took the number from the
	// sets that they could read, and began again with 1 if these had another encryption key.
	Counted bool `json:"counted,omitempty"`

	key string // id of the encryption key of the file
}

// WriteAll writes all tables as of one moment as a stream.
func (s *Store) WriteAll(ctx context.Context, to io.Writer) error {
	view, err := s.db.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	tables, err := view.Tables(ctx)
	if err != nil {
		return err
	}
	now := s.db.Now()
	for _, t := range tables {
		if !hasItems(t) {
			continue
		}
		if _, err := to.Write([]byte{1}); err != nil {
			return err
		}
		m := Manifest{Format: format, ID: timeid.New(now), Name: "stator-backup", Created: now, Taken: now, Table: *t}
		if err := writeFile(to, &m, view.Items(ctx, t.ID), func(int64) error { return nil }); err != nil {
			return fmt.Errorf("write table %s: %w", t.Name, err)
		}
	}
	_, err = to.Write([]byte{0})
	return err
}

// ReadAll writes backups from a stream of WriteAll. If it fails, it leaves none
// of them. It calls done after each table.
func ReadAll(ctx context.Context, from io.Reader, place blob.Place, now time.Time, done func(Manifest)) (err error) {
	in := bufio.NewReaderSize(from, 1<<20)
	var all []Manifest
	defer func() {
		if err == nil {
			return
		}
		for _, m := range all {
			for _, suffix := range []string{suffixManifest, suffixItems} {
				err = errors.Join(err, place.Remove(context.WithoutCancel(ctx), m.ID+suffix))
			}
		}
	}()
	for {
		more, err := in.ReadByte()
		if err != nil || more > 1 {
			return fmt.Errorf("the stream from the server ended early: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		if more == 0 {
			break
		}
		m, err := copyFile(ctx, in, place)
		if err != nil {
			return err
		}
		all = append(all, *m)
		done(*m)
	}
	set := backupSet{Format: format, ID: timeid.New(now), Created: now}
	for i := range all {
		if err := writeRecord(ctx, place, all[i].ID+suffixManifest, &all[i]); err != nil {
			return err
		}
		set.Backups = append(set.Backups, all[i].ID)
	}
	return writeRecord(ctx, place, set.ID+suffixSet, set)
}

// copyFile copies the file of one table and verifies it while copying.
func copyFile(ctx context.Context, in *bufio.Reader, place blob.Place) (*Manifest, error) {
	// The name of the file contains the id, which is known once the header is
	// read.
	head := new(bytes.Buffer)
	tee := &redirectWriter{to: head}
	r, err := openFile(io.TeeReader(in, tee), "sent by the server")
	if err != nil {
		return nil, err
	}
	m := r.header
	if !timeid.Valid(m.ID) {
		return nil, fmt.Errorf("the server sent a backup with the invalid id %q", m.ID)
	}
	w, err := place.Create(ctx, m.ID+suffixItems)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	_, err = out.Write(head.Bytes())
	tee.to = out
	for _, itemErr := range r.items() {
		err = errors.Join(err, itemErr)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		w.Cancel()
		return nil, err
	}
	m.Items, m.Bytes, m.FileBytes, m.SHA256 = r.footer.Items, r.footer.Bytes, r.at, r.footer.SHA256
	return &m, w.Commit()
}

// redirectWriter writes to a target that can be replaced.
type redirectWriter struct{ to io.Writer }

func (s *redirectWriter) Write(b []byte) (int, error) { return s.to.Write(b) }

// ErrNoSet is returned when a place holds no backup of a whole server.
var ErrNoSet = errors.New("there is no backup of a whole server")

// RestoreAll creates all tables of the newest set at a place, or of the newest one that the
// schedule of a database has made if database is its id, with their
// settings but without their change records. It verifies every file before it
// creates the first table, and calls done after each table. If there are newer sets that
// need another encryption key, it logs that.
func RestoreAll(ctx context.Context, place blob.Place, d *db.DB, database string, log *slog.Logger, done func(Manifest)) error {
	newest, skipped, err := newestSet(ctx, place, database)
	if err != nil {
		return err
	}
	if n := len(skipped); n > 0 {
		log.Warn("newer backups are not restored", "restored", newest.ID, "newer", n, "newest", skipped[0].File, "error", skipped[0].Error)
	}
	var all []*Manifest
	for _, id := range newest.Backups {
		m, err := readManifest(ctx, place, id+suffixManifest)
		if err != nil {
			return missingFile(err)
		}
		if err := verify(ctx, place, id); err != nil {
			return err
		}
		all = append(all, m)
	}
	for _, m := range all {
		if err := restoreTable(ctx, d, m); err != nil {
			return fmt.Errorf("restore table %s: %w", m.Table.Name, err)
		}
		done(*m)
	}
	return nil
}

// newestSet returns the set of the largest id. If a schedule made it, its database may
// have made another one later, when the clock was behind: that one is returned then. If the place
// has sets of several databases, which of them is to be restored must be given: the
// newest set may be stale, as a server that was replaced, and was started again, goes on with its
// schedule.
//
// Sets that need another encryption key are omitted. skipped are those of them with larger
// ids. If there are no others, the error says which key is needed.
func newestSet(ctx context.Context, place blob.Place, database string) (newest *backupSet, skipped []UnreadableSet, err error) {
	names, err := place.Names(ctx)
	if err != nil {
		return nil, nil, err
	}
	var others error
	scheduled := make(map[string][]*backupSet) // by their databases
	for _, name := range slices.Backward(names) {
		if !strings.HasSuffix(name, suffixSet) {
			continue
		}
		set, err := readSet(ctx, place, name)
		switch {
		case encryption.IsKeyError(err) && newest == nil:
			others = cmp.Or(others, err)
			skipped = append(skipped, UnreadableSet{File: name, Error: err.Error(), OtherKey: true})
		case errors.Is(err, blob.ErrNotFound), encryption.IsKeyError(err), errors.Is(err, store.ErrCorrupt) && newest != nil:
		case err != nil:
			return nil, nil, err
		case database != "" && set.Database != database:
		case set.Number > 0:
			newest = cmp.Or(newest, set)
			scheduled[set.Database] = append(scheduled[set.Database], set)
		case newest == nil:
			return set, skipped, nil
		}
	}
	switch {
	case len(scheduled) > 1:
		return nil, nil, severalDatabases(place, scheduled)
	case newest != nil:
		own := scheduled[newest.Database]
		inOrder(own)
		return own[len(own)-1], skipped, nil
	case others != nil:
		return nil, nil, fmt.Errorf("%s has no backup of a whole server that can be used: %w", place, others)
	case database != "":
		return nil, nil, fmt.Errorf("%s, database %s: %w", place, database, ErrNoSet)
	}
	return nil, nil, fmt.Errorf("%s: %w", place, ErrNoSet)
}

// severalDatabases returns the error for a place with sets of several databases, none of which was
// chosen. It lists them in the order of their ids.
func severalDatabases(place blob.Place, scheduled map[string][]*backupSet) error {
	text := new(strings.Builder)
	for _, database := range slices.Sorted(maps.Keys(scheduled)) {
		sets := scheduled[database]
		inOrder(sets)
		last := sets[len(sets)-1]
		fmt.Fprintf(text, "\n        %s: newest of %d: %s, %d items", database, len(sets), last.Created.UTC().Format(time.RFC3339), last.Items)
	}
	return fmt.Errorf("%s has scheduled backups of %d databases: choose one with --database, as the newest backup may be that of a server which was replaced%s", place, len(scheduled), text)
}

// inOrder sorts the sets of a database by when they were made. That is the order of their
// numbers, whatever the clock said. Sets that older versions made with different keys may
// have begun again with 1: where their numbers contradict their ids, which have the time,
// the ids count.
func inOrder(sets []*backupSet) {
	slices.SortStableFunc(sets, func(a, b *backupSet) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID))
	})
	began := false
	for i, a := range sets {
		began = began || slices.ContainsFunc(sets[i+1:], func(b *backupSet) bool {
			return a.key != b.key && !a.Counted && !b.Counted && a.ID > b.ID
		})
	}
	if !began {
		return
	}
	slices.SortStableFunc(sets, func(a, b *backupSet) int {
		switch {
		case a.Counted && b.Counted:
			return cmp.Compare(a.Number, b.Number)
		case a.Counted != b.Counted && a.Counted:
			return 1
		case a.Counted != b.Counted:
			return -1
		}
		return cmp.Compare(a.ID, b.ID)
	})
}

func readSet(ctx context.Context, place blob.Place, name string) (s *backupSet, err error) {
	s = new(backupSet)
	if s.key, err = readRecord(ctx, place, name, s); err != nil {
		return nil, err
	}
	if s.Format != format {
		return nil, fmt.Errorf("backup file %s has format %d; this version reads format %d", name, s.Format, format)
	}
	return s, nil
}

// restoreTable creates a table from a backup and waits until it is active.
func restoreTable(ctx context.Context, d *db.DB, m *Manifest) error {
	def := restoredTable(m)
	if _, err := d.RestoreBackup(ctx, def); err != nil {
		return err
	}
	for {
		now, err := d.Describe(def.Name)
		if err != nil || now.State == schema.Deleting {
			return errors.New("the restore failed; the log has the reason")
		}
		if !now.Restored.Running {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if m.Table.Recovery.Enabled {
		_, err := d.SetRecovery(ctx, def.Name, m.Table.Recovery.Days)
		return err
	}
	return nil
}

// restoredTable returns the definition of a table that is restored with its own
// name. Streams begin again, and so does point-in-time recovery.
func restoredTable(m *Manifest) schema.Table {
	def := m.Table
	def.Streams, def.Recovery, def.TimeToLive.Filling = nil, schema.Recovery{}, false
	def.Indexes = slices.Clone(def.Indexes)
	def.Indexes = slices.DeleteFunc(def.Indexes, func(x schema.Index) bool { return x.State == schema.Deleting })
	for i := range def.Indexes {
		def.Indexes[i].State, def.Indexes[i].Backfilling = "", false // it is complete as soon as the table is
	}
	def.Restored = schema.Restored{Table: m.Table.Name, Backup: m.ID, At: m.Created}
	return def
}
