// Package backup keeps copies of tables outside of the database: it makes
// them, lists them, and gives their items back.
//
// They lie in a place of their own, so that losing the database does not lose
// them. Which tables they become again is decided by package db.
package backup

import (
	"bufio"
	"context"
	"crypto/rand"
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
	"github.com/stator-db/stator/internal/store"
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

	stop context.CancelFunc
	work sync.WaitGroup
	wake chan struct{}

	ready chan struct{} // closed when it is known what a restart interrupted

	mu      sync.Mutex
	known   map[string]*Manifest // those that are complete, once read
	pending []*job               // in the order in which they were asked for
	failed  map[string]error     // why some came to nothing, until the next start
}

// job is a backup that is being made.
type job struct {
	Manifest
	view *db.View // nil after a restart: it is made of what there is then
}

// Backup is one backup and how far it is.
type Backup struct {
	Manifest
	Creating bool
}

// Open begins to keep backups at a place, and goes on with those that a
// restart interrupted. The place stays the caller's to close, after Close.
func Open(ctx context.Context, d *db.DB, place blob.Place, log *slog.Logger) *Store {
	s := &Store{
		db: d, place: place, log: log,
		wake:   make(chan struct{}, 1),
		ready:  make(chan struct{}),
		known:  make(map[string]*Manifest),
		failed: make(map[string]error),
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.work.Go(func() {
		if err := s.resume(background); err != nil && background.Err() == nil {
			log.Error("backups cannot be looked at", "place", place.String(), "error", err)
		}
		close(s.ready)
		s.write(background)
	})
	return s
}

// Close ends what goes on. A backup that is not complete is begun anew after
// the next start.
func (s *Store) Close() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.pending {
		j.release()
	}
}

func (j *job) release() {
	if j.view != nil {
		j.view.Close()
		j.view = nil
	}
}

// await waits until the backups are known that a restart interrupted.
func (s *Store) await(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume finds the backups that were being made when we stopped, and removes
// what belongs to none.
func (s *Store) resume(ctx context.Context) error {
	names, err := s.place.Names(ctx)
	if err != nil {
		return err
	}
	has := make(map[string]bool)
	for _, name := range names {
		has[name] = true
	}
	for _, name := range names {
		if id, ok := idOf(name, endItems); ok && !has[id+endManifest] && !has[id+endCreating] && id < newID(s.db.Now().Add(-stale)) {
			if err := s.place.Remove(ctx, name); err != nil {
				return err
			}
		}
		id, ok := idOf(name, endCreating)
		if !ok {
			continue
		}
		m, err := readManifest(ctx, s.place, name)
		if err != nil {
			s.log.Error("a backup that was being made cannot be made", "error", err)
			continue
		}
		t, err := s.db.Describe(m.Table.Name)
		if err != nil || t.UUID != m.Table.UUID {
			continue // it may be another database's
		}
		if has[id+endManifest] {
			if err := s.place.Remove(ctx, name); err != nil {
				return err
			}
			continue
		}
		s.mu.Lock()
		if !slices.ContainsFunc(s.pending, func(j *job) bool { return j.ID == id }) {
			s.pending = append(s.pending, &job{Manifest: *m})
		}
		s.mu.Unlock()
	}
	return nil
}

// stale is how old items must be that belong to no backup before they are
// removed: somebody else may be writing them.
const stale = 24 * time.Hour

// idOf is the id in the name of a file.
func idOf(name, end string) (id string, ok bool) {
	id, ok = strings.CutSuffix(name, end)
	return id, ok && isID.MatchString(id)
}

// newID makes an id of a moment, as DynamoDB does: milliseconds and eight
// digits of chance.
func newID(now time.Time) string {
	var chance [4]byte
	rand.Read(chance[:])
	return fmt.Sprintf("%014d-%x", now.UnixMilli(), chance)
}

// Create begins a backup of a table as it is now.
func (s *Store) Create(ctx context.Context, table, name string) (Backup, error) {
	if err := s.await(ctx); err != nil {
		return Backup{}, err
	}
	s.mu.Lock()
	waiting := len(s.pending)
	s.mu.Unlock()
	if waiting >= maxPending {
		return Backup{}, ErrTooMany
	}
	view, err := s.db.View(ctx)
	if err != nil {
		return Backup{}, err
	}
	t, err := view.Table(ctx, table)
	if err == nil {
		var told db.Description
		if told, err = s.db.Describe(table); err == nil {
			now := s.db.Now()
			j := &job{view: view, Manifest: Manifest{
				Format: format, ID: newID(now), Name: name, Created: now, Taken: now, Table: *t,
				Items: told.Counts[0].Items, Bytes: told.Counts[0].Bytes,
			}}
			if err = writeRecord(ctx, s.place, j.ID+endCreating, &j.Manifest); err == nil {
				s.enqueue(j)
				return Backup{j.Manifest, true}, nil
			}
			err = fmt.Errorf("begin a backup in %s: %w", s.place, err)
		}
	}
	view.Close()
	return Backup{}, err
}

func (s *Store) enqueue(j *job) {
	s.mu.Lock()
	s.pending = append(s.pending, j)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write writes backups, one after the other.
func (s *Store) write(ctx context.Context) {
	for {
		s.mu.Lock()
		var j *job
		if len(s.pending) > 0 {
			j = s.pending[0]
		}
		s.mu.Unlock()
		if j == nil {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		m, err := s.make(ctx, j)
		if ctx.Err() != nil {
			return
		}
		s.finish(ctx, j, m, err)
	}
}

// progressInterval is the time between two lines in the log.
const progressInterval = 5 * time.Second

// make writes the files of a backup.
func (s *Store) make(ctx context.Context, j *job) (*Manifest, error) {
	m := j.Manifest
	view := j.view
	if view == nil {
		var err error
		if view, err = s.db.View(ctx); err != nil {
			return nil, err
		}
		defer view.Close()
		t, err := view.Table(ctx, m.Table.Name)
		if err != nil {
			return nil, err
		}
		if t.UUID != m.Table.UUID {
			return nil, fmt.Errorf("table %s is another one by now", t.Name)
		}
		m.Table, m.Taken = *t, s.db.Now()
	}
	began, told := s.db.Now(), s.db.Now()
	log := s.log.With("table", m.Table.Name, "backup", m.Name, "id", m.ID)
	w, err := s.place.Create(ctx, m.ID+endItems)
	if err != nil {
		return nil, err
	}
	err = writeFile(w, &m, view.Items(ctx, m.Table.ID), func(items int64) {
		if now := s.db.Now(); now.Sub(told) >= progressInterval {
			told = now
			log.Info("a backup is being written", "items", items)
		}
	})
	if err != nil {
		w.Cancel()
		return nil, err
	}
	if err := w.Commit(); err != nil {
		return nil, err
	}
	if err := writeRecord(ctx, s.place, m.ID+endManifest, &m); err != nil {
		return nil, err
	}
	log.Info("a backup was written", "items", m.Items, "bytes", m.FileBytes, "took", s.db.Now().Sub(began).Round(time.Millisecond))
	return &m, nil
}

// maxFailed is how many backups are remembered that came to nothing.
const maxFailed = 100

// finish makes a backup known, or remembers why there is none.
func (s *Store) finish(ctx context.Context, j *job, m *Manifest, err error) {
	if err != nil {
		s.log.Error("a backup could not be made", "table", j.Table.Name, "backup", j.Name, "id", j.ID, "place", s.place.String(), "error", err)
		s.discard(ctx, j.ID+endItems)
	}
	s.mu.Lock()
	s.pending = s.pending[1:]
	if err == nil {
		s.known[j.ID] = m
	} else {
		if len(s.failed) >= maxFailed {
			clear(s.failed)
		}
		s.failed[j.ID] = fmt.Errorf("backup %s of table %s could not be made: %w", j.Name, j.Table.Name, err)
	}
	j.release()
	s.mu.Unlock()
	s.discard(ctx, j.ID+endCreating)
}

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
	if !isID.MatchString(id) {
		return Backup{}, ErrNotFound
	}
	if err := s.await(ctx); err != nil {
		return Backup{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.pending {
		if j.ID == id {
			return Backup{j.Manifest, true}, nil
		}
	}
	if err, ok := s.failed[id]; ok {
		return Backup{}, &Failed{err}
	}
	m, err := readManifest(ctx, s.place, id+endManifest)
	if errors.Is(err, blob.ErrNotFound) {
		delete(s.known, id)
		return Backup{}, ErrNotFound
	}
	if err != nil {
		return Backup{}, err
	}
	s.known[id] = m
	return Backup{*m, false}, nil
}

// List are all backups in order of their ids, which is that of time. One whose
// manifest is damaged is told in the log only.
func (s *Store) List(ctx context.Context) ([]Backup, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the backups in %s: %w", s.place, err)
	}
	var all []Backup
	for _, j := range s.pending {
		all = append(all, Backup{j.Manifest, true})
	}
	for _, name := range names {
		id, ok := idOf(name, endManifest)
		if !ok || slices.ContainsFunc(s.pending, func(j *job) bool { return j.ID == id }) {
			continue
		}
		m := s.known[id]
		if m == nil {
			if m, err = readManifest(ctx, s.place, name); err != nil {
				s.log.Error("a backup is left out", "place", s.place.String(), "error", err)
				continue
			}
			s.known[id] = m
		}
		all = append(all, Backup{*m, false})
	}
	slices.SortFunc(all, func(a, b Backup) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
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
	// Without its manifest it is no backup any more.
	for _, end := range []string{endManifest, endItems} {
		if err := s.place.Remove(ctx, id+end); err != nil {
			return Backup{}, fmt.Errorf("remove backup %s from %s: %w", id, s.place, err)
		}
	}
	s.mu.Lock()
	delete(s.known, id)
	s.mu.Unlock()
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
	m, err := readManifest(ctx, place, id+endManifest)
	if err != nil {
		return missing(err)
	}
	file, err := place.Open(ctx, id+endItems)
	if err != nil {
		return missing(err)
	}
	defer file.Close()
	r, err := openFile(bufio.NewReaderSize(file, 1<<20), id+endItems)
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
	if err := r.end(); err != nil {
		return err
	}
	if r.footer.SHA256 != m.SHA256 || r.at != m.FileBytes || r.footer.Items != m.Items {
		return r.damaged("it is not the one that the manifest is of")
	}
	return nil
}

// missing makes a lost file one of the errors that do not pass.
func missing(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("a file of the backup is missing: %w: %w", err, store.ErrCorrupt)
	}
	return err
}
