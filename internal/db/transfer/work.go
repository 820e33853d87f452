package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// The leader runs jobs. It can lose leadership without noticing at once, while the
// new leader starts the same job again. So the record of a job holds the number of
// its attempt, and an earlier attempt cannot change the record any more. export.go
// explains how two attempts treat the files of an export. On a cluster a server
// that has lost leadership can no longer commit, so it cannot change the table of
// an import.

const (
	workers      = 2                // jobs that run at once; the others wait
	scanInterval = 10 * time.Second // between scans for jobs that were not announced
	retryDelay   = 5 * time.Second  // after the database was unavailable

	// orphanAge is how long a server may take to create the table of an import.
	orphanAge = time.Minute
)

// jobRunner runs jobs from when this server becomes the leader until it no longer
// is.
type jobRunner struct {
	*Store
	mu      sync.Mutex
	claimed map[string]bool // ids of jobs that a worker runs
}

// work runs jobs while this server leads.
func (s *Store) work(ctx context.Context, begun func()) {
	begun()
	t := &jobRunner{Store: s, claimed: make(map[string]bool)}
	lead.RunTerm(ctx, s.db.Clock(), s.db.Leads,
		lead.Loop{Step: t.step, Wake: s.wake, Polls: true, Workers: workers, Retry: retryDelay, Failed: s.warn("cannot read the records of exports and imports; retrying")},
		lead.Loop{Step: t.cleanUp, Polls: true, Retry: scanInterval, Failed: s.warn("cannot remove abandoned imports; retrying")})
}

// warn logs an error of background work.
func (s *Store) warn(message string) func(error) {
	return func(err error) { s.log.Warn(message, "error", err) }
}

// leads returns nil as long as this server is the leader. Running jobs call it
// between their steps.
func (s *Store) leads(ctx context.Context) error {
	err := lead.Check(ctx, s.db.Leads)
	if errors.Is(err, lead.ErrNotLeader) {
		return errSuperseded
	}
	return err
}

// cleanUp fails and removes imports that other servers have abandoned.
func (t *jobRunner) cleanUp(ctx context.Context) (wait time.Duration, err error) {
	return scanInterval, t.failOrphans(ctx)
}

// failOrphans fails the imports whose tables were never created, and removes the
// tables of imports that are not in progress.
func (s *Store) failOrphans(ctx context.Context) error {
	tables := s.importTables() // before the jobs: a record is written before its table
	jobs, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	for id, j := range jobs {
		if j.Import == nil || j.Status != InProgress || j.TableID != 0 || !s.isPast(j.Started, orphanAge) {
			continue
		}
		if *j, err = s.recordEnd(ctx, *j, &jobError{"InternalFailure", errors.New("the server stopped before the table was created")}); err != nil && !errors.Is(err, errSuperseded) {
			return err
		}
		jobs[id] = j
	}
	for name, id := range tables {
		if j := jobs[id]; j != nil && j.Status == InProgress {
			continue
		}
		if err := s.db.DropImport(ctx, name, id); err != nil {
			return err
		}
	}
	return nil
}

// importTables returns the names of the tables that are being imported, with the
// ids of the imports.
func (s *Store) importTables() map[string]string {
	found := make(map[string]string)
	for names, more := []string(nil), true; more; {
		after := ""
		if len(names) > 0 {
			after = names[len(names)-1]
		}
		names, more = s.db.Tables(after, 1000)
		for _, name := range names {
			t, err := s.db.Describe(name)
			if err == nil && t.State != schema.Deleting && t.Restored.Import != "" && t.Restored.Running {
				found[name] = t.Restored.Import
			}
		}
	}
	return found
}

// step runs the job that has waited longest.
func (t *jobRunner) step(ctx context.Context) (wait time.Duration, err error) {
	j, ok, err := t.next(ctx)
	if err != nil {
		return 0, err
	}
	if !ok {
		return scanInterval, nil
	}
	t.wake.Signal() // there may be more, for another worker
	t.runJob(ctx, j)
	return 0, nil
}

// next claims the job that has waited longest. An import waits for its table.
func (t *jobRunner) next(ctx context.Context) (Job, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs, err := t.jobs(ctx)
	if err != nil {
		return Job{}, false, err
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if j := jobs[id]; j.Status == InProgress && !t.claimed[id] && j.TableID != 0 {
			t.claimed[id] = true
			return *j, true, nil
		}
	}
	return Job{}, false, nil
}

// runJob makes one attempt at a job. If its end cannot be recorded, another
// attempt follows.
func (t *jobRunner) runJob(ctx context.Context, j Job) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.claimed, j.ID)
	}()
	log := t.log.With("table", j.Table, "id", j.ID, "bucket", j.Bucket)
	err := t.attempt(ctx, j, log)
	switch {
	case err == nil, t.leads(ctx) != nil:
	case errors.Is(err, errSuperseded):
		t.db.Clock().Fail(fmt.Errorf("%s %s: %w", j.kind(), j.ID, err))
		log.Warn(j.kind() + " has ended, or another server runs it")
		// Two servers that both believe to lead must not take the job from each
		// other without a pause.
		t.db.Clock().Wait(ctx, clock.Waiting{For: retryDelay, Retries: true})
	default:
		t.db.Clock().Fail(fmt.Errorf("%s %s: %w", j.kind(), j.ID, err))
		log.Error(j.kind()+" interrupted; retrying from the start", "error", err)
		t.db.Clock().Wait(ctx, clock.Waiting{For: retryDelay, Retries: true})
	}
}

// attempt runs a job and records how it ended.
func (s *Store) attempt(ctx context.Context, j Job, log *slog.Logger) error {
	before := j.Attempt
	j, err := s.updateJob(ctx, j.ID, before, func(j *Job) {
		if !j.sealed() {
			j.Attempt++
		}
	})
	if err != nil {
		return err
	}
	if j.Export != nil {
		err = s.export(ctx, &j, log)
	} else {
		err = s.importFiles(ctx, j, log)
	}
	if lost := s.leads(ctx); lost != nil {
		return lost
	}
	if errors.Is(err, errSuperseded) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	return s.finish(ctx, j, err, log)
}

// finish records how a job ended, and removes the files or the table of a failed
// one.
func (s *Store) finish(ctx context.Context, j Job, why error, log *slog.Logger) error {
	ended, err := s.recordEnd(ctx, j, why)
	if err != nil && !(errors.Is(err, errSuperseded) && ended.Status == Failed) {
		return err
	}
	if ended.Status == Failed {
		if why != nil {
			log.Error(j.kind()+" failed", "error", why)
		}
		if j.Import != nil {
			return s.db.DropImport(ctx, j.Table, j.ID)
		}
		return s.discard(ctx, &j)
	}
	log.Info(j.kind()+" complete", "items", ended.Items, "errors", ended.Errors, "bytes", ended.Bytes, "took", ended.Ended.Sub(ended.Started))
	return nil
}

// recordEnd sets the final status of a job: failed if why is not nil.
func (s *Store) recordEnd(ctx context.Context, j Job, why error) (Job, error) {
	return s.updateJob(ctx, j.ID, j.Attempt, func(j *Job) {
		j.Status, j.Files = Completed, nil
		if j.Ended.IsZero() {
			j.Ended = s.db.Now().Truncate(time.Millisecond)
		}
		if why == nil {
			return
		}
		j.Status, j.Code, j.Message = Failed, "InternalFailure", why.Error()
		var f *jobError
		if errors.As(why, &f) {
			j.Code = f.code
		}
	})
}

// progressInterval is the time between two reports of a job's progress, in the log
// and in its record.
const progressInterval = 5 * time.Second

// progressTimer decides when to report the progress of a job.
type progressTimer struct {
	now  func() time.Time
	last time.Time
}

// due reports whether progressInterval has passed since it last returned true, or
// since the first call.
func (t *progressTimer) due() bool {
	now := t.now()
	if t.last.IsZero() {
		t.last = now
	}
	if now.Sub(t.last) < progressInterval {
		return false
	}
	t.last = now
	return true
}
