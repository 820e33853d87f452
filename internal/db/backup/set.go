package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
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

// RestoreAll creates all tables of the newest set at a place, with their
// settings but without their change records. It verifies every file before it
// creates the first table, and calls done after each table.
func RestoreAll(ctx context.Context, place blob.Place, d *db.DB, done func(Manifest)) error {
	newest, err := newestSet(ctx, place)
	if err != nil {
		return err
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
// have made another one later, when the clock was behind: that one is returned then.
func newestSet(ctx context.Context, place blob.Place) (*backupSet, error) {
	names, err := place.Names(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, suffixSet) })
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", place, ErrNoSet)
	}
	newest, err := readSet(ctx, place, slices.Max(names))
	if err != nil || newest.Number == 0 {
		return newest, err
	}
	for _, name := range names {
		set, err := readSet(ctx, place, name)
		switch {
		case errors.Is(err, blob.ErrNotFound) || errors.Is(err, store.ErrCorrupt):
		case err != nil:
			return nil, err
		case set.Database == newest.Database && set.Number > newest.Number:
			newest = set
		}
	}
	return newest, nil
}

func readSet(ctx context.Context, place blob.Place, name string) (*backupSet, error) {
	s := new(backupSet)
	if err := readRecord(ctx, place, name, s); err != nil {
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
