// Package backup writes, lists and reads copies of tables that are kept outside
// the database.
//
// They are stored at a separate place, so that losing the database does not lose
// them, and that place holds all of their state. Any of the servers that share a
// database accepts requests; the leader writes the backups. Package db creates
// tables from them.
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
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// Errors that a request can cause.
var (
	ErrNotFound = errors.New("backup not found")
	ErrInUse    = errors.New("the backup is in use")
	ErrTooMany  = errors.New("too many backups are in progress")
)

// maxPending bounds the backups that wait to be written. Each may hold a view of
// the database.
const maxPending = 50

// Store creates, finds and deletes the backups at a place.
type Store struct {
	db    *db.DB
	place blob.Place
	log   *slog.Logger

	background lead.Work
	wake       *clock.Wake
	schedule   Schedule

	mu        sync.Mutex
	manifests map[string]*Manifest // of complete backups, as last listed
	failed    map[string]error     // reasons of failed backups; kept in memory only
	requested map[string]bool      // ids whose Create is running on this server
	leading   bool                 // whether this server writes backups
	pending   []*job               // in the order of the requests
	attempt   Attempt              // the last scheduled backup, on any server; kept in memory only

	unreadable int // sets that could not be read when they were last listed

	// orphans holds the items files that no manifest names, and when this server
	// first saw each. nextScan is when to look for them again. Only work uses them.
	orphans  map[string]time.Time
	nextScan time.Time

	retryAt time.Time // when a scheduled backup that failed is made again; only scheduleStep uses it
}

// Options configure a Store.
type Options struct {
	Log      *slog.Logger
	Schedule Schedule
}

// Backup is a backup that is complete or being created.
type Backup struct {
	Manifest
	Creating bool
}

// The topics of messages between servers: a backup was requested, and a backup
// failed.
const (
	topicRequested = "backup"
	topicFailed    = "backup failed"
)

// Open starts a Store that keeps backups at a place. It resumes backups that a
// restart or another server has left unfinished. The caller closes the place,
// after Close.
func Open(ctx context.Context, d *db.DB, place blob.Place, o Options) *Store {
	s := &Store{
		db: d, place: place, log: o.Log, schedule: o.Schedule,
		wake:      d.Clock().NewWake(),
		manifests: make(map[string]*Manifest),
		failed:    make(map[string]error),
		requested: make(map[string]bool),
	}
	s.background.Start(ctx, d.Clock(), d.Leads, s.work)
	d.Subscribe(topicRequested, s.onRequested)
	d.Subscribe(topicFailed, s.onFailed)
	d.Subscribe(topicSchedule, s.onAttempt)
	return s
}

// Close stops the work in progress. An unfinished backup is started again after
// the next Open, or by another server.
func (s *Store) Close() { s.background.Close() }

// cutID returns the backup id in a file name that ends in suffix.
func cutID(name, suffix string) (id string, ok bool) {
	id, ok = strings.CutSuffix(name, suffix)
	return id, ok && timeid.Valid(id)
}

// Create starts a backup of a table as it is now.
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
	// A full disk is no reason against a backup elsewhere. A database that has no id yet has
	// no standby, so no other one has its tables.
	owner, err := s.db.ID(ctx)
	if err != nil && !errors.Is(err, store.ErrFull) {
		return Backup{}, err
	}
	now := s.db.Now()
	m := Manifest{
		Format: format, ID: timeid.New(now), Name: name, Created: now, Taken: now, Table: *t.Table, Owner: owner,
		Items: t.Counts[0].Items, Bytes: t.Counts[0].Bytes,
	}
	s.setRequested(m.ID, true)
	defer s.setRequested(m.ID, false)
	if err := writeRecord(ctx, s.place, m.ID+suffixCreating, &m); err != nil {
		return Backup{}, fmt.Errorf("start a backup in %s: %w", s.place, err)
	}
	// When every server has received the message, the leader has a view of the
	// table.
	if err := s.db.Broadcast(ctx, topicRequested, m.ID); err != nil {
		s.discard(context.WithoutCancel(ctx), m.ID+suffixCreating)
		return Backup{}, fmt.Errorf("start a backup of table %s: %w", table, err)
	}
	return Backup{m, true}, nil
}

func (s *Store) setRequested(id string, requested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if requested {
		s.requested[id] = true
	} else {
		delete(s.requested, id)
	}
}

// creating returns the records of the backups that are being created.
func (s *Store) creating(ctx context.Context) (found []*Manifest, err error) {
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list backups in %s: %w", s.place, err)
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
			s.log.Error("cannot read the record of a pending backup; skipping it", "place", s.place.String(), "error", err)
		default:
			found = append(found, m)
		}
	}
	return found, nil
}

// readCreating reads the record of a backup that is being created. It returns
// ErrNotFound if there is none. Several databases may share a place: it returns
// ErrNotFound for the record of another one, too. If the record does not say of which
// database it is, the table may belong to another one. Such a record is still returned
// until it is a day old, since the table may be one of this database that was deleted.
func (s *Store) readCreating(ctx context.Context, id string) (*Manifest, error) {
	m, err := readManifest(ctx, s.place, id+suffixCreating)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if m.Owner != "" {
		// The UUID of the table is not enough: a promoted standby has it, too.
		own, err := s.db.ID(ctx)
		if err != nil {
			return nil, err
		}
		if m.Owner != own {
			return nil, ErrNotFound
		}
	}
	if !s.tableExists(m) && s.isStale(id) {
		return nil, ErrNotFound
	}
	return m, nil
}

// tableExists reports whether the table of a backup exists in this database.
func (s *Store) tableExists(m *Manifest) bool {
	t, err := s.db.Describe(m.Table.Name)
	return err == nil && t.UUID == m.Table.UUID
}

// staleAfter is the age from which files of an incomplete backup count as
// abandoned. Until then a server may still be writing them.
const staleAfter = 24 * time.Hour

// isStale reports whether an id is older than staleAfter, by a clock that is
// trusted.
func (s *Store) isStale(id string) bool {
	return id < timeid.New(s.db.Now().Add(-staleAfter)) && s.db.Clock().Trusted()
}

// discard removes a file that is not needed. If that fails, a later scan does it.
func (s *Store) discard(ctx context.Context, name string) {
	if err := s.place.Remove(ctx, name); err != nil {
		s.log.Warn("cannot remove a backup file", "file", name, "error", err)
	}
}

// Failed is the error for a backup that was started and failed.
type Failed struct{ Err error }

func (e *Failed) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Failed) Unwrap() error { return e.Err }

// Get returns a backup.
func (s *Store) Get(ctx context.Context, id string) (Backup, error) {
	if !timeid.Valid(id) {
		return Backup{}, ErrNotFound
	}
	// The manifest is written before the record of the pending backup is removed.
	// A backup that completes between the two reads is found by the second pass.
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

// List returns all backups in the order of their ids, which is the order of time.
// A backup with a damaged manifest, or of another encryption key, is skipped and logged.
func (s *Store) List(ctx context.Context) ([]Backup, error) {
	waiting, err := s.creating(ctx)
	if err != nil {
		return nil, err
	}
	// The manifests are listed last: a backup that completes meanwhile is found
	// twice rather than not at all.
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list backups in %s: %w", s.place, err)
	}
	found := make(map[string]*Manifest)
	var all []Backup
	var others otherKeys
	for _, name := range names {
		id, ok := cutID(name, suffixManifest)
		if !ok {
			continue
		}
		m, err := s.manifest(ctx, id)
		if errors.Is(err, blob.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if encryption.IsKeyError(err) {
			others.add(err.Error())
			continue
		}
		if err != nil {
			s.log.Error("cannot read the manifest of a backup; skipping it", "place", s.place.String(), "error", err)
			continue
		}
		found[id] = m
		all = append(all, Backup{*m, false})
	}
	others.log(s, "backups are not listed, as they are not of the present encryption key")
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

// manifest returns the manifest of a complete backup, from memory if List has read
// it before.
func (s *Store) manifest(ctx context.Context, id string) (*Manifest, error) {
	s.mu.Lock()
	m := s.manifests[id]
	s.mu.Unlock()
	if m != nil {
		return m, nil
	}
	return readManifest(ctx, s.place, id+suffixManifest)
}

// Delete removes a backup and returns its description.
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
		return Backup{}, fmt.Errorf("list files of backup %s in %s: %w", id, s.place, err)
	}
	return b, s.removeFiles(ctx, id, names)
}

// removeFiles removes the files of a backup. names are those of all files.
func (s *Store) removeFiles(ctx context.Context, id string, names []string) error {
	// The record of the pending backup may still exist, and would create the
	// backup again, so it is removed first. Without its manifest the backup no
	// longer exists.
	files := []string{id + suffixCreating, id + suffixManifest}
	for _, name := range names {
		if fileID, ok := itemsFileID(name); ok && fileID == id {
			files = append(files, name)
		}
	}
	for _, name := range files {
		if err := s.place.Remove(ctx, name); err != nil {
			return fmt.Errorf("remove backup %s from %s: %w", id, s.place, err)
		}
	}
	return nil
}

// Verify reads a whole backup. It returns a *Damaged if a file is damaged.
func (s *Store) Verify(ctx context.Context, id string) error { return verify(ctx, s.place, id) }

func verify(ctx context.Context, place blob.Place, id string) error {
	for _, err := range read(ctx, place, id) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore creates a table from a backup. define returns the definition of the new
// table, given that of the table that was backed up.
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

// Contents returns the function through which a database reads the items of
// backups at a place. A backup is verified as a whole before its first item is
// returned, so that no table is filled from a damaged one.
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

// read iterates over the items of a backup and verifies its files.
func read(ctx context.Context, place blob.Place, id string) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		if err := readInto(ctx, place, id, yield); err != nil {
			yield(nil, err)
		}
	}
}

// readInto passes the items of a backup to yield until yield returns false.
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
		return r.damaged("it belongs to a different backup")
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
		return r.damaged("its counts, size or checksum do not match the manifest")
	}
	return nil
}

// missingFile turns blob.ErrNotFound into store.ErrCorrupt, since a file of a
// complete backup does not reappear.
func missingFile(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("a backup file is missing: %w: %w", err, store.ErrCorrupt)
	}
	return err
}
