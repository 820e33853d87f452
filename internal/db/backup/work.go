package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// The leader writes backups. It can lose leadership without noticing at once,
// while the new leader starts the same backup again, as of a later moment. So that
// neither damages the result of the other, no two attempts write the same items
// file, and no attempt removes the file of another one. The manifest names its
// items file, so whichever manifest is written last refers to a file that exists.
// Items files that no manifest names are removed with the backup, or after a day.

// job is a backup that is being created.
type job struct {
	Manifest
	view    *history.View // nil if the request was missed: the backup is then of a later moment
	started bool
}

func (j *job) release() {
	if j.view != nil {
		j.view.Close()
		j.view = nil
	}
}

const (
	scanInterval = time.Minute     // between scans for backups whose request was missed
	retryDelay   = 5 * time.Second // after the database was unavailable
)

// onRequested takes a view of the database for a backup that was requested, if this
// server is the one that writes it.
func (s *Store) onRequested(ctx context.Context, id string) error {
	if id == "" {
		s.background.Restart()
		return nil
	}
	if !s.background.Begun(ctx) {
		return ctx.Err()
	}
	view, err := s.db.View(ctx)
	if err != nil {
		return err
	}
	m, err := s.readCreating(ctx, id)
	if err != nil {
		view.Close()
		if errors.Is(err, ErrNotFound) {
			return nil // the message was repeated, and the backup is complete
		}
		return err
	}
	m.Taken = s.db.Now()
	s.add(&job{Manifest: *m, view: view})
	return nil
}

// add queues a backup if this server still writes them.
func (s *Store) add(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pending, func(other *job) bool { return other.ID == j.ID })
	switch {
	case !s.leading:
		j.release()
	case i < 0:
		if s.requested[j.ID] {
			delete(s.requested, j.ID) // the first attempt uses the default file name
		} else {
			j.File = j.ID + "-" + timeid.Suffix() + suffixItems
		}
		s.pending = append(s.pending, j)
		s.wake.Signal()
	case j.view != nil && s.pending[i].view == nil && !s.pending[i].started:
		s.pending[i].view = j.view // a scan found it before its message arrived
	default:
		j.release()
	}
}

// onFailed records why a backup failed, on whichever server that was.
func (s *Store) onFailed(_ context.Context, message string) error {
	if id, why, ok := strings.Cut(message, "\x00"); ok {
		s.recordFailure(id, errors.New(why))
	}
	return nil
}

// maxFailed bounds how many failures are kept.
const maxFailed = 100

func (s *Store) recordFailure(id string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[id] != nil {
		return
	}
	if len(s.failed) >= maxFailed {
		clear(s.failed)
	}
	s.failed[id] = why
}

// work writes backups one after the other while this server leads.
func (s *Store) work(ctx context.Context, begun func()) {
	s.mu.Lock()
	s.leading = true
	s.mu.Unlock()
	begun()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, j := range s.pending {
			j.release()
		}
		s.leading, s.pending = false, nil
	}()
	s.nextScan = time.Time{}
	loops := []lead.Loop{{Step: s.step, Wake: s.wake, Polls: true}}
	if s.schedule.Every > 0 {
		loops = append(loops, s.scheduleLoop())
	}
	lead.RunTerm(ctx, s.db.Clock(), s.db.Leads, loops...)
}

// step writes the backup that has waited longest. At intervals it scans for
// backups that were requested while this server did not lead.
func (s *Store) step(ctx context.Context) (wait time.Duration, err error) {
	if s.nextScan.IsZero() {
		s.checkKeys(ctx)
	}
	if !time.Now().Before(s.nextScan) {
		s.nextScan = time.Now().Add(scanInterval)
		if err := s.scan(ctx); err != nil && s.leads(ctx) {
			s.log.Error("cannot scan for backups; retrying", "place", s.place.String(), "error", err)
			s.nextScan = time.Now().Add(retryDelay)
		}
	}
	j := s.nextPending()
	if j == nil {
		return time.Until(s.nextScan), nil
	}
	s.run(ctx, j)
	return 0, nil
}

// checkKeys logs which encryption keys of the place cannot be used. It fails nothing: backups may not
// need them.
func (s *Store) checkKeys(ctx context.Context) {
	if err := blob.CheckKeys(ctx, s.place); err != nil && s.leads(ctx) {
		s.log.Error("not all encryption keys of backups can be used", "place", s.place.String(), "error", err)
	}
}

func (s *Store) leads(ctx context.Context) bool { return lead.Check(ctx, s.db.Leads) == nil }

// nextPending returns the backup that has waited longest, nil if there is none.
func (s *Store) nextPending() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return nil
	}
	s.pending[0].started = true
	return s.pending[0]
}

// scan queues the pending backups whose requests were missed, and removes files
// that belong to no backup.
func (s *Store) scan(ctx context.Context) error {
	names, err := s.place.Names(ctx)
	if err != nil {
		return err
	}
	has := make(map[string]bool)
	items := make(map[string][]string) // names of items files by id
	for _, name := range names {
		has[name] = true
		if id, ok := itemsFileID(name); ok {
			items[id] = append(items[id], name)
		}
	}
	for _, name := range names {
		id, ok := cutID(name, suffixCreating)
		if !ok {
			continue
		}
		m, err := s.readCreating(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && !s.tableExists(m):
			continue // it may belong to another database
		case err != nil:
			s.log.Error("cannot read the record of a pending backup; skipping it", "error", err)
		case has[id+suffixManifest]:
			if err := s.place.Remove(ctx, name); err != nil {
				return err
			}
		default:
			s.add(&job{Manifest: *m})
		}
	}
	before := s.orphans
	s.orphans = make(map[string]time.Time)
	for id, files := range items {
		if err := s.removeOrphans(ctx, id, files, has, before); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans removes the items files that no manifest names, a day after it saw
// them first. The age of the backup alone is not enough: its files may be being
// copied to this place, and the manifest is copied last.
func (s *Store) removeOrphans(ctx context.Context, id string, items []string, has map[string]bool, before map[string]time.Time) error {
	if !s.isStale(id) || has[id+suffixCreating] || has[id+suffixManifest] && len(items) == 1 {
		return nil
	}
	named := ""
	if has[id+suffixManifest] {
		m, err := readManifest(ctx, s.place, id+suffixManifest)
		if err != nil {
			return nil //nolint:nilerr // a damaged backup is left alone; List logs it
		}
		named = m.items()
	}
	for _, name := range items {
		if name == named {
			continue
		}
		since, seen := before[name]
		if !seen {
			since = time.Now()
		}
		if time.Since(since) < staleAfter {
			s.orphans[name] = since
			continue
		}
		if err := s.place.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// errSuperseded is returned when this server must not continue a backup.
var errSuperseded = errors.New("the backup was completed or abandoned by another server")

// run writes a backup, or reports why it failed.
func (s *Store) run(ctx context.Context, j *job) {
	err := s.write(ctx, j)
	switch {
	case err == nil:
		s.discard(context.WithoutCancel(ctx), j.ID+suffixCreating)
	case !s.leads(ctx):
		return // the next leader writes it
	case errors.Is(err, store.ErrUnavailable):
		s.db.Clock().Fail(fmt.Errorf("backup %s of table %s: %w", j.Name, j.Table.Name, err))
		s.log.Error("backup interrupted; retrying", "table", j.Table.Name, "id", j.ID, "error", err)
		s.db.Clock().Wait(ctx, clock.Waiting{For: retryDelay, Retries: true})
		return
	case !errors.Is(err, errSuperseded):
		s.fail(ctx, j, err)
		s.discard(ctx, j.ID+suffixCreating)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(other *job) bool { return other == j })
	j.release()
}

// fail reports to all servers why a backup failed. Its files are removed already.
func (s *Store) fail(ctx context.Context, j *job, why error) {
	s.log.Error("backup failed", "table", j.Table.Name, "backup", j.Name, "id", j.ID, "place", s.place.String(), "error", why)
	why = fmt.Errorf("backup %s of table %s failed: %w", j.Name, j.Table.Name, why)
	s.db.Clock().Fail(why)
	s.recordFailure(j.ID, why)
	if err := s.db.Broadcast(ctx, topicFailed, j.ID+"\x00"+why.Error()); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot report a failed backup to the other servers", "id", j.ID, "error", err)
	}
}

// progressInterval is the time between two progress messages in the log.
const progressInterval = 5 * time.Second

// write writes the files of a backup.
func (s *Store) write(ctx context.Context, j *job) error {
	m := j.Manifest
	view := j.view
	if view == nil {
		var err error
		if view, err = s.db.View(ctx); err != nil {
			return err
		}
		defer view.Close()
		m.Taken = s.db.Now()
	}
	t, err := view.Table(ctx, m.Table.Name)
	if err != nil {
		return err
	}
	if t.UUID != m.Table.UUID {
		return fmt.Errorf("table %s was deleted and created again", t.Name)
	}
	m.Table = *t
	began := s.db.Now()
	log := s.log.With("table", m.Table.Name, "backup", m.Name, "id", m.ID)
	if err := s.writeItems(ctx, view, &m, log); err != nil {
		return err
	}
	if err := s.complete(ctx, &m); err != nil {
		return err
	}
	log.Info("backup complete", "items", m.Items, "bytes", m.FileBytes, "took", s.db.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// writeItems writes the items file of a backup.
func (s *Store) writeItems(ctx context.Context, view *history.View, m *Manifest, log *slog.Logger) error {
	lastLog := s.db.Now()
	w, err := s.place.Create(ctx, m.items())
	if err != nil {
		return err
	}
	err = writeFile(w, m, view.Items(ctx, m.Table.ID), func(items int64) error {
		if now := s.db.Now(); now.Sub(lastLog) >= progressInterval {
			lastLog = now
			log.Info("writing backup", "items", items)
		}
		if !s.leads(ctx) {
			return errSuperseded
		}
		return nil
	})
	if err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// complete writes the manifest if the backup is still wanted. Otherwise it removes
// the items file, whose name no other attempt uses.
func (s *Store) complete(ctx context.Context, m *Manifest) error {
	err := s.checkWanted(ctx, m.ID)
	if err == nil {
		if err = writeRecord(ctx, s.place, m.ID+suffixManifest, m); err == nil {
			return nil
		}
		// The manifest may have been written in spite of the error.
		existing, readErr := readManifest(context.WithoutCancel(ctx), s.place, m.ID+suffixManifest)
		switch {
		case readErr == nil && existing.items() == m.items():
			return nil
		case readErr != nil && !errors.Is(readErr, blob.ErrNotFound):
			return err
		}
	}
	s.discard(context.WithoutCancel(ctx), m.items())
	return err
}

// checkWanted returns errSuperseded unless this server leads and the backup is
// still pending.
func (s *Store) checkWanted(ctx context.Context, id string) error {
	if !s.leads(ctx) {
		return errSuperseded
	}
	creating, err := s.place.Open(ctx, id+suffixCreating)
	if errors.Is(err, blob.ErrNotFound) {
		return errSuperseded
	}
	if err != nil {
		return err
	}
	return creating.Close()
}
