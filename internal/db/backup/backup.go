// Package backup keeps copies of tables outside of the database: it makes
// them, lists them, and gives their items back.
//
// They lie in a place of their own, so that losing the database does not lose
// them. That place is all that is known of them: any of the servers that share
// a database takes requests, and the one that leads writes. Which tables they
// become again is decided by package db.
package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// What can be wrong with a request.
var (
	ErrNotFound = errors.New("no such backup")
	ErrInUse    = errors.New("the backup is in use")
	ErrTooMany  = errors.New("too many backups are being made")
)

// maxPending is how many backups may wait to be written, each with a view of
// the database.
const maxPending = 50

// Store makes backups and keeps them.
type Store struct {
	db    *db.DB
	place blob.Place
	log   *slog.Logger

	terms *lead.Work
	wake  chan struct{}

	mu        sync.Mutex
	manifests map[string]*Manifest // what was read of those that are complete
	failed    map[string]error     // why some came to nothing, until the next start
	requested map[string]bool      // those that were asked for here, just now
	leading   bool                 // whether pending is looked at
	pending   []*job               // in the order in which they were asked for

	// orphans are files of items that no manifest names, and since when they were
	// seen here. Only who works looks at it.
	orphans map[string]time.Time
}

// Backup is one backup and how far it is.
type Backup struct {
	Manifest
	Creating bool
}

// What servers tell each other: that a backup was asked for, and that one came
// to nothing.
const (
	topicBegun  = "backup"
	topicFailed = "backup failed"
)

// Open begins to keep backups at a place, and goes on with those that a
// restart, or another server, has left. The place stays the caller's to close,
// after Close.
func Open(ctx context.Context, d *db.DB, place blob.Place, log *slog.Logger) *Store {
	s := &Store{
		db: d, place: place, log: log,
		wake:      make(chan struct{}, 1),
		manifests: make(map[string]*Manifest),
		failed:    make(map[string]error),
		requested: make(map[string]bool),
	}
	s.terms = lead.Begin(ctx, d.Leads, s.work)
	d.OnAnnounce(topicBegun, s.onBegun)
	d.OnAnnounce(topicFailed, s.onFailed)
	return s
}

// Close ends what goes on. A backup that is not complete is begun anew after
// the next start, or by another server.
func (s *Store) Close() { s.terms.Close() }

// cutID is the id in the name of a file.
func cutID(name, suffix string) (id string, ok bool) {
	id, ok = strings.CutSuffix(name, suffix)
	return id, ok && timeid.Valid(id)
}

// Create begins a backup of a table as it is now.
func (s *Store) Create(ctx context.Context, table, name string) (Backup, error) {
	waiting, err := s.creating(ctx)
	if err != nil {
		return Backup{}, err
	}
	if len(waiting) >= maxPending {
		return Backup{}, ErrTooMany
	}
	t, err := s.db.Describe(table)
	if err != nil {
		return Backup{}, err
	}
	now := s.db.Now()
	m := Manifest{
		Format: format, ID: timeid.New(now), Name: name, Created: now, Taken: now, Table: *t.Table,
		Items: t.Counts[0].Items, Bytes: t.Counts[0].Bytes,
	}
	s.setRequested(m.ID, true)
	defer s.setRequested(m.ID, false)
	if err := writeRecord(ctx, s.place, m.ID+suffixCreating, &m); err != nil {
		return Backup{}, fmt.Errorf("begin a backup in %s: %w", s.place, err)
	}
	// When all have heard it, the one that leads has the table as it is.
	if err := s.db.Announce(ctx, topicBegun, m.ID); err != nil {
		s.discard(context.WithoutCancel(ctx), m.ID+suffixCreating)
		return Backup{}, fmt.Errorf("begin a backup of table %s: %w", table, err)
	}
	return Backup{m, true}, nil
}

func (s *Store) setRequested(id string, began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began {
		s.requested[id] = true
	} else {
		delete(s.requested, id)
	}
}

// creating are the records of the backups that are being made.
func (s *Store) creating(ctx context.Context) (found []*Manifest, err error) {
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the backups in %s: %w", s.place, err)
	}
	for _, name := range names {
		id, ok := cutID(name, suffixCreating)
		if !ok || slices.Contains(names, id+suffixManifest) {
			continue
		}
		m, err := s.readCreating(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			s.log.Error("a backup that was being made is left out", "place", s.place.String(), "error", err)
		default:
			found = append(found, m)
		}
	}
	return found, nil
}

// readCreating reads the record of a backup that is being made; ErrNotFound if
// there is none. A place may be shared by several databases. A record of a table
// that is not ours is told all the same, for a day: the table may have been
// deleted since.
func (s *Store) readCreating(ctx context.Context, id string) (*Manifest, error) {
	m, err := readManifest(ctx, s.place, id+suffixCreating)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err == nil && !s.tableExists(m) && s.isStale(id) {
		return nil, ErrNotFound
	}
	return m, err
}

// tableExists tells whether a backup is of a table that is there.
func (s *Store) tableExists(m *Manifest) bool {
	t, err := s.db.Describe(m.Table.Name)
	return err == nil && t.UUID == m.Table.UUID
}

// staleAfter is how old the files of a backup must be that came to nothing before
// they are seen as left: somebody may be writing them.
const staleAfter = 24 * time.Hour

func (s *Store) isStale(id string) bool { return id < timeid.New(s.db.Now().Add(-staleAfter)) }

// discard removes a file that is of no use. If it cannot, the next start does.
func (s *Store) discard(ctx context.Context, name string) {
	if err := s.place.Remove(ctx, name); err != nil {
		s.log.Warn("a file of a backup could not be removed", "file", name, "error", err)
	}
}

// Failed is the error of a backup that was begun and came to nothing.
type Failed struct{ Err error }

func (e *Failed) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *Failed) Unwrap() error { return e.Err }

// Get finds a backup.
func (s *Store) Get(ctx context.Context, id string) (Backup, error) {
	if !timeid.Valid(id) {
		return Backup{}, ErrNotFound
	}
	// What is looked at first is there before the other goes. One that is
	// complete between the two is found by the second look.
	for range 2 {
		m, err := readManifest(ctx, s.place, id+suffixManifest)
		if err == nil {
			return Backup{*m, false}, nil
		}
		if !errors.Is(err, blob.ErrNotFound) {
			return Backup{}, err
		}
		m, err = s.readCreating(ctx, id)
		if err == nil {
			return Backup{*m, true}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return Backup{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err, ok := s.failed[id]; ok {
		return Backup{}, &Failed{err}
	}
	return Backup{}, ErrNotFound
}

// List are all backups in order of their ids, which is that of time. One whose
// manifest is damaged is told in the log only.
func (s *Store) List(ctx context.Context) ([]Backup, error) {
	waiting, err := s.creating(ctx)
	if err != nil {
		return nil, err
	}
	// After that: one that becomes complete meanwhile is there twice, not never.
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the backups in %s: %w", s.place, err)
	}
	found := make(map[string]*Manifest)
	var all []Backup
	for _, name := range names {
		id, ok := cutID(name, suffixManifest)
		if !ok {
			continue
		}
		m, err := s.manifest(ctx, id)
		if errors.Is(err, blob.ErrNotFound) {
			continue // somebody deletes it
		}
		if err != nil {
			s.log.Error("a backup is left out", "place", s.place.String(), "error", err)
			continue
		}
		found[id] = m
		all = append(all, Backup{*m, false})
	}
	for _, m := range waiting {
		if found[m.ID] == nil {
			all = append(all, Backup{*m, true})
		}
	}
	s.mu.Lock()
	s.manifests = found
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Backup) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// manifest is the manifest of a backup that is there; it is read once.
func (s *Store) manifest(ctx context.Context, id string) (*Manifest, error) {
	s.mu.Lock()
	m := s.manifests[id]
	s.mu.Unlock()
	if m != nil {
		return m, nil
	}
	return readManifest(ctx, s.place, id+suffixManifest)
}

// Delete removes a backup and tells what it was.
func (s *Store) Delete(ctx context.Context, id string) (Backup, error) {
	b, err := s.Get(ctx, id)
	if err != nil {
		return Backup{}, err
	}
	if b.Creating || s.db.Restoring(id) {
		return Backup{}, ErrInUse
	}
	names, err := s.place.Names(ctx)
	if err != nil {
		return Backup{}, fmt.Errorf("list the files of backup %s in %s: %w", id, s.place, err)
	}
	// That it is being made may be left, and would make it again. Without its
	// manifest it is no backup any more.
	files := []string{id + suffixCreating, id + suffixManifest}
	for _, name := range names {
		if of, ok := itemsFileID(name); ok && of == id {
			files = append(files, name)
		}
	}
	for _, name := range files {
		if err := s.place.Remove(ctx, name); err != nil {
			return Backup{}, fmt.Errorf("remove backup %s from %s: %w", id, s.place, err)
		}
	}
	return b, nil
}

// Verify reads a backup as a whole; a *Damaged tells what is wrong with it.
func (s *Store) Verify(ctx context.Context, id string) error { return verify(ctx, s.place, id) }

func verify(ctx context.Context, place blob.Place, id string) error {
	for _, err := range read(ctx, place, id) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore makes a new table of a backup. define makes its description of the
// one that was backed up.
func (s *Store) Restore(ctx context.Context, id string, define func(schema.Table) (schema.Table, error)) (db.Description, error) {
	b, err := s.Get(ctx, id)
	if err != nil {
		return db.Description{}, err
	}
	if b.Creating {
		return db.Description{}, ErrInUse
	}
	def, err := define(b.Table)
	if err != nil {
		return db.Description{}, err
	}
	def.Restored = schema.Restored{Table: b.Table.Name, Backup: id, At: b.Created}
	return s.db.RestoreBackup(ctx, def)
}

// Contents makes the function by which a database finds the items of backups
// at a place. A backup is read as a whole before it gives its first item, so
// that a table is not filled from one that is damaged.
func Contents(place blob.Place) func(ctx context.Context, id string) (*db.Contents, error) {
	return func(ctx context.Context, id string) (*db.Contents, error) {
		if err := verify(ctx, place, id); err != nil {
			return nil, err
		}
		return &db.Contents{
			Items: func(ctx context.Context) iter.Seq2[item.Item, error] { return read(ctx, place, id) },
			Close: func() error { return nil },
		}, nil
	}
}

// read goes through the items of a backup, and checks its files.
func read(ctx context.Context, place blob.Place, id string) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		if err := readInto(ctx, place, id, yield); err != nil {
			yield(nil, err)
		}
	}
}

// readInto returns nil when yield wants no more.
func readInto(ctx context.Context, place blob.Place, id string, yield func(item.Item, error) bool) error {
	m, err := readManifest(ctx, place, id+suffixManifest)
	if err != nil {
		return missingFile(err)
	}
	file, err := place.Open(ctx, m.items())
	if err != nil {
		return missingFile(err)
	}
	defer file.Close()
	r, err := openFile(bufio.NewReaderSize(file, 1<<20), m.items())
	if err != nil {
		return err
	}
	if r.header.ID != id || r.header.Table.UUID != m.Table.UUID {
		return r.damaged("it belongs to another backup")
	}
	for it, err := range r.items() {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(it, nil) {
			return nil
		}
	}
	if err := r.checkEOF(); err != nil {
		return err
	}
	if r.footer.SHA256 != m.SHA256 || r.at != m.FileBytes || r.footer.Items != m.Items {
		return r.damaged("it is not the one that the manifest is of")
	}
	return nil
}

// missingFile makes a lost file one of the errors that do not pass.
func missingFile(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("a file of the backup is missing: %w: %w", err, store.ErrCorrupt)
	}
	return err
}
