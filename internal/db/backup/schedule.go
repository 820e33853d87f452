package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/timeid"
)

// Schedule says how often all tables are backed up, and which of those backups are
// kept. Each backup is a set, as of one moment.
type Schedule struct {
	Every  time.Duration // between the beginnings of two backups; 0 disables the schedule
	Keep   int           // how many sets are kept; at least 1
	MaxAge time.Duration // sets that are older are removed, except the newest; 0 is no limit
}

// scheduleRetry is the longest wait after a scheduled backup failed.
const scheduleRetry = 10 * time.Minute

// topicSchedule is the topic of messages that say how the last scheduled backup
// ended.
const topicSchedule = "scheduled backup"

// scheduleLoop makes the scheduled backups while this server leads.
func (s *Store) scheduleLoop() lead.Loop {
	s.retryAt = time.Time{}
	return lead.Loop{Step: s.scheduleStep, Retry: min(scheduleRetry, s.schedule.Every), Failed: func(err error) {
		s.log.Error("scheduled backups cannot be listed or removed; retrying", "place", s.place.String(), "error", err)
	}}
}

// scheduleStep makes a backup if one is due, and removes those that are not kept.
// When the last one was made is read from the place, so neither a restart nor
// another leader shifts the schedule.
func (s *Store) scheduleStep(ctx context.Context) (wait time.Duration, err error) {
	database, err := s.db.ID(ctx)
	if err != nil {
		return 0, err
	}
	sets, unreadable, err := s.sets(ctx, database)
	if err != nil {
		return 0, err
	}
	damaged := s.logUnreadable(unreadable)
	if wait := s.untilDue(sets); wait > 0 {
		return wait, nil
	}
	if damaged == 0 { // otherwise their backups would be taken for unfinished ones
		if err := s.removeUnfinished(ctx, database, sets); err != nil {
			return 0, err
		}
	}
	number, err := s.nextNumber(ctx, sets, unreadable)
	if err != nil {
		return 0, err
	}
	made, err := s.backUpAll(ctx, database, number)
	if !s.leads(ctx) {
		return 0, nil // the next leader makes it
	}
	s.reportAttempt(ctx, err)
	if err != nil {
		s.retryAt = s.db.Now().Add(min(scheduleRetry, s.schedule.Every))
		s.db.Clock().Fail(fmt.Errorf("scheduled backup: %w", err))
		s.log.Error("scheduled backup failed; earlier backups are kept", "place", s.place.String(), "retry", s.retryAt, "error", err)
		return s.untilDue(sets), nil
	}
	s.retryAt = time.Time{}
	sets = append(sets, made)
	return s.untilDue(sets), s.removeOldSets(ctx, sets)
}

// logUnreadable logs the sets that cannot be read, and returns how many are damaged. Those
// that need another key are not, and the backups that belong to them cannot be read either.
func (s *Store) logUnreadable(sets []UnreadableSet) (damaged int) {
	var others otherKeys
	defer func() { others.log(s, "backup sets are kept, as they are not of the present encryption key") }()
	for _, u := range sets {
		if u.OtherKey {
			others.add(u.Error)
			continue
		}
		damaged++
		s.log.Error("cannot read a backup set; it and its backups are kept", "place", s.place.String(), "file", u.File, "error", u.Error)
	}
	return damaged
}

// otherKeys are files that are not of the present encryption key. There may be many, so they are
// logged together.
type otherKeys struct {
	files int
	last  string // why the last one is not
}

func (o *otherKeys) add(why string) { o.files, o.last = o.files+1, why }

func (o *otherKeys) log(s *Store, message string) {
	if o.files > 0 {
		s.log.Warn(message, "place", s.place.String(), "files", o.files, "last", o.last)
	}
}

// nextNumber returns the number of the next set, which is larger than that of all sets
// that the database has made. The database counts them, as not all can be read if they have
// several encryption keys. One that has not counted yet begins above what any has reached.
func (s *Store) nextNumber(ctx context.Context, sets []*backupSet, unreadable []UnreadableSet) (int64, error) {
	first := int64(1)
	if len(unreadable) > 0 {
		first = s.db.Now().UnixMilli()
	}
	return s.db.NextSetNumber(ctx, newestNumber(sets), first)
}

// untilDue returns how long to wait for the next backup. Sets from the future do not
// count: the clock was set back since.
func (s *Store) untilDue(sets []*backupSet) time.Duration {
	now, wait := s.db.Now(), time.Duration(0)
	for _, set := range slices.Backward(sets) {
		if !set.Created.After(now) {
			wait = set.Created.Add(s.schedule.Every).Sub(now)
			break
		}
	}
	return max(wait, min(s.retryAt.Sub(now), s.schedule.Every))
}

// sets returns the scheduled sets of a database, in the order in which they were made,
// and the sets that cannot be read. Other databases may share the place.
func (s *Store) sets(ctx context.Context, database string) (own []*backupSet, unreadable []UnreadableSet, err error) {
	names, err := s.place.Names(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, suffixSet) {
			continue
		}
		set, err := readSet(ctx, s.place, name)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, blob.ErrNotFound):
			continue // it was removed meanwhile
		case err != nil:
			unreadable = append(unreadable, UnreadableSet{name, err.Error(), encryption.IsKeyError(err)})
		case set.Database == database:
			own = append(own, set)
		}
	}
	inOrder(own)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable = len(unreadable)
	return own, unreadable, nil
}

// newestNumber returns the largest number of sets, 0 if there is none.
func newestNumber(sets []*backupSet) (number int64) {
	for _, set := range sets {
		number = max(number, set.Number)
	}
	return number
}

// backUpAll makes a backup of all tables as of one moment. If it fails, it leaves no
// part of it.
func (s *Store) backUpAll(ctx context.Context, database string, number int64) (*backupSet, error) {
	now := s.db.Now()
	view, err := s.db.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	set := &backupSet{Format: format, ID: timeid.New(now), Created: now, Database: database, Number: number, Counted: true}
	if err := s.writeSet(ctx, view, set); err != nil {
		return nil, errors.Join(err, s.removeParts(context.WithoutCancel(ctx), set))
	}
	s.log.Info("scheduled backup complete and verified", "set", set.ID, "database", database, "tables", len(set.Backups), "items", set.Items, "bytes", set.Bytes, "took", set.Verified.Sub(now).Round(time.Millisecond))
	return set, nil
}

// writeSet writes a backup of each table, verifies each, and then writes the set that
// names them.
func (s *Store) writeSet(ctx context.Context, view *history.View, set *backupSet) error {
	tables, err := view.Tables(ctx)
	if err != nil {
		return err
	}
	var made []Manifest
	for _, t := range tables {
		if !hasItems(t) {
			continue
		}
		m := Manifest{Format: format, ID: timeid.New(set.Created), Name: "scheduled", Database: set.Database, Set: set.Number, Created: set.Created, Taken: set.Created, Table: *t}
		set.Backups = append(set.Backups, m.ID)
		if err := s.writeVerified(ctx, view, &m); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		made = append(made, m)
		set.Items += m.Items
		set.Bytes += m.Bytes
	}
	if err := lead.Check(ctx, s.db.Leads); err != nil {
		return err
	}
	if err := s.checkPresent(ctx, made); err != nil {
		return err
	}
	set.Verified = s.db.Now()
	return writeRecord(ctx, s.place, set.ID+suffixSet, set)
}

// checkPresent returns an error if a backup has been removed since it was written.
func (s *Store) checkPresent(ctx context.Context, made []Manifest) error {
	has, err := s.files(ctx)
	if err != nil {
		return err
	}
	for _, m := range made {
		if !has[m.ID+suffixManifest] {
			return fmt.Errorf("backup %s of table %s was removed before its set was complete, by a request, by another program or by a server with a copy of this database", m.ID, m.Table.Name)
		}
	}
	return nil
}

// files returns the names of all files at the place.
func (s *Store) files(ctx context.Context) (has map[string]bool, err error) {
	names, err := s.place.Names(ctx)
	has = make(map[string]bool)
	for _, name := range names {
		has[name] = true
	}
	return has, err
}

// hasItems reports whether a table has its items: one that is being deleted or
// filled does not.
func hasItems(t *schema.Table) bool { return t.State != schema.Deleting && !t.Restored.Running }

// writeVerified writes the backup of a table and compares it with the table.
func (s *Store) writeVerified(ctx context.Context, view *history.View, m *Manifest) error {
	if err := s.writeItems(ctx, view, m, s.log.With("table", m.Table.Name, "backup", m.Name, "id", m.ID)); err != nil {
		return err
	}
	if err := writeRecord(ctx, s.place, m.ID+suffixManifest, m); err != nil {
		return err
	}
	c := copyCheck{place: s.place, view: view, table: &m.Table, id: m.ID, now: s.db.Now, log: s.log}
	return c.run(ctx)
}

// removeUnfinished removes the scheduled backups of this database that belong to no
// set and were made after all sets, by their number and by the clock: their server stopped
// before it could complete their set. Others were copied to the place by an operator.
func (s *Store) removeUnfinished(ctx context.Context, database string, sets []*backupSet) error {
	if len(sets) == 0 {
		return nil
	}
	newest := sets[len(sets)-1]
	complete := make(map[string]bool)
	for _, set := range sets {
		for _, id := range set.Backups {
			complete[id] = true
		}
	}
	all, err := s.List(ctx)
	if err != nil {
		return err
	}
	var left []string
	for _, b := range all {
		if b.Database == database && b.Set > newest.Number && b.Created.After(newest.Created) && !complete[b.ID] && !s.db.Restoring(b.ID) {
			left = append(left, b.ID)
		}
	}
	return s.removeBackups(ctx, left)
}

// removeOldSets removes the sets that the schedule does not keep. Sets are counted
// from the one that was made last, and only those that are whole: a set that lacks a backup, which
// a customer may have deleted, does not replace another.
func (s *Store) removeOldSets(ctx context.Context, sets []*backupSet) error {
	has, err := s.files(ctx)
	if err != nil {
		return err
	}
	whole := 0 // newer sets that are whole
	for _, set := range slices.Backward(sets) {
		if whole >= s.schedule.Keep || whole > 0 && s.isTooOld(set) {
			if err := s.removeSet(ctx, set); err != nil {
				return err
			}
			continue
		}
		if !slices.ContainsFunc(set.Backups, func(id string) bool { return !has[id+suffixManifest] }) {
			whole++
		}
	}
	return nil
}

// isTooOld reports whether a set is older than the schedule keeps, by a clock that is
// trusted.
func (s *Store) isTooOld(set *backupSet) bool {
	clock := s.db.Clock()
	return s.schedule.MaxAge > 0 && clock.Since(set.Created) > s.schedule.MaxAge && clock.Trusted()
}

// removeSet removes a set and its backups, unless a table is being restored from
// one of them.
func (s *Store) removeSet(ctx context.Context, set *backupSet) error {
	if slices.ContainsFunc(set.Backups, s.db.Restoring) {
		return nil
	}
	if err := s.removeParts(ctx, set); err != nil {
		return err
	}
	s.log.Info("removed an old scheduled backup", "set", set.ID, "created", set.Created)
	return nil
}

// removeParts removes the backups of a set, and then the set, which may not exist. If it
// fails, a set remains that is not whole.
func (s *Store) removeParts(ctx context.Context, set *backupSet) error {
	if err := s.removeBackups(ctx, set.Backups); err != nil {
		return err
	}
	if err := s.place.Remove(ctx, set.ID+suffixSet); err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("remove backup set %s from %s: %w", set.ID, s.place, err)
	}
	return nil
}

// removeBackups removes all files of backups.
func (s *Store) removeBackups(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	names, err := s.place.Names(ctx)
	if err != nil {
		return fmt.Errorf("list files of backups in %s: %w", s.place, err)
	}
	for _, id := range ids {
		if err := s.removeFiles(ctx, id, names); err != nil {
			return err
		}
	}
	return nil
}

// Attempt is how a scheduled backup ended.
type Attempt struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"` // empty if it succeeded
}

// reportAttempt reports to all servers how a scheduled backup ended.
func (s *Store) reportAttempt(ctx context.Context, err error) {
	last := Attempt{At: s.db.Now()}
	if err != nil {
		last.Error = err.Error()
	}
	text, err := json.Marshal(last)
	if err != nil {
		panic(fmt.Sprintf("the outcome of a backup cannot be encoded as JSON: %v", err))
	}
	s.setAttempt(last)
	if err := s.db.Broadcast(ctx, topicSchedule, string(text)); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot report the outcome of a scheduled backup to the other servers", "error", err)
	}
}

// onAttempt records how the last scheduled backup ended, on whichever server that
// was.
func (s *Store) onAttempt(_ context.Context, message string) error {
	var last Attempt
	if message == "" || json.Unmarshal([]byte(message), &last) != nil {
		return nil
	}
	s.setAttempt(last)
	return nil
}

func (s *Store) setAttempt(last Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = last
}

// ScheduleStatus is what the schedule has done. The field names are part of the API
// and must not change.
type ScheduleStatus struct {
	Every  string       `json:"every"` // as durations are written in Go
	Keep   int          `json:"keep"`
	MaxAge string       `json:"maxAge,omitempty"`
	Sets   []SetSummary `json:"sets"`             // newest first, of this database only
	Failed *Attempt     `json:"failed,omitempty"` // if the last attempt failed

	Database string `json:"database"` // id of this database, with which its sets are restored

	// Unreadable are the sets at the place that cannot be read, whichever database
	// made them. The schedule neither counts nor removes them.
	Unreadable []UnreadableSet `json:"unreadable,omitempty"`
}

// UnreadableSet is a file of a set that cannot be read.
type UnreadableSet struct {
	File  string `json:"file"`
	Error string `json:"error"`

	OtherKey bool `json:"otherKey,omitempty"` // it is not damaged, but is not of the present encryption key
}

// SetSummary describes a set whose backups were all verified.
type SetSummary struct {
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	Verified time.Time `json:"verified"`
	Tables   int       `json:"tables"`
	Items    int64     `json:"items"`
	Bytes    int64     `json:"bytes"` // size of the items as DynamoDB counts it
}

// ErrNoSchedule is returned when this server has no schedule for backups.
var ErrNoSchedule = errors.New("no backups are scheduled")

// ScheduleStatus returns the scheduled backups that exist, and why the last attempt
// failed.
func (s *Store) ScheduleStatus(ctx context.Context) (*ScheduleStatus, error) {
	if s.schedule.Every == 0 {
		return nil, ErrNoSchedule
	}
	database, err := s.db.ID(ctx)
	if err != nil {
		return nil, err
	}
	sets, unreadable, err := s.sets(ctx, database)
	if err != nil {
		return nil, err
	}
	status := &ScheduleStatus{Every: s.schedule.Every.String(), Keep: s.schedule.Keep, Sets: make([]SetSummary, 0, len(sets)), Database: database, Unreadable: unreadable}
	if s.schedule.MaxAge > 0 {
		status.MaxAge = s.schedule.MaxAge.String()
	}
	for _, set := range slices.Backward(sets) {
		status.Sets = append(status.Sets, SetSummary{ID: set.ID, Created: set.Created, Verified: set.Verified, Tables: len(set.Backups), Items: set.Items, Bytes: set.Bytes})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.attempt; last.Error != "" {
		status.Failed = &last
	}
	return status, nil
}

// Metrics returns what this server knows of the scheduled backups, as metrics. The
// leader lists the sets when a backup is due.
func (s *Store) Metrics() []metrics.Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []metrics.Metric{
		{Name: "stator_backup_sets_unreadable", Help: "Backup sets that could not be read when this server last listed the scheduled backups.", Type: metrics.Gauge, Samples: metrics.Value(float64(s.unreadable))},
	}
}
