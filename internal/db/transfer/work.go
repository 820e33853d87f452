package transfer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// One server carries jobs out, the one that leads. It can lose the lead without
// noticing at once, and another begins the same job anew. So each attempt has a
// number in the job's record, and an attempt that has no longer the number of
// the record changes nothing in it. What two attempts do to the files of an
// export is told in export.go. A server that has lost the lead on a cluster
// commits nothing any more, so that it cannot touch the table of an import.

const (
	workers      = 2                // jobs under way at once; others wait
	scanInterval = 10 * time.Second // for jobs that nobody has told of
	retryDelay   = 5 * time.Second  // when the database could not be reached

	// orphanAge is how long a server may take to make the table of an import.
	orphanAge = time.Minute
)

// jobRunner is what this server does from when it leads until it does not.
type jobRunner struct {
	*Store
	mu    sync.Mutex
	taken map[string]bool // jobs that a worker has
}

// work carries out jobs while this server leads.
func (s *Store) work(ctx context.Context, begun func()) {
	begun()
	t := &jobRunner{Store: s, taken: make(map[string]bool)}
	// When one sees that the lead is lost all end, and begin anew together if
	// it comes back.
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			defer end()
			t.run(ctx)
		})
	}
	all.Go(func() {
		defer end()
		t.cleanUp(ctx)
	})
	all.Wait()
}

// leads is nil as long as this server does: what goes on in a term asks between
// its steps.
func (s *Store) leads(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.db.Leads() {
		return errSuperseded
	}
	return nil
}

// cleanUp ends what other servers have left in the middle, at once and then now
// and then.
func (t *jobRunner) cleanUp(ctx context.Context) {
	for t.leads(ctx) == nil {
		if err := t.failOrphans(ctx); err != nil && t.leads(ctx) == nil {
			t.log.Warn("what is left of imports could not be removed; trying again", "error", err)
		}
		wait(ctx, nil, scanInterval)
	}
}

// wait waits, or until it is woken or the context ends.
func wait(ctx context.Context, woken <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}

// failOrphans ends the imports whose tables were never made, and removes the
// tables of those that are not under way.
func (s *Store) failOrphans(ctx context.Context) error {
	tables := s.importTables() // before the jobs: the record of one is made before its table
	jobs, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	for id, j := range jobs {
		if j.Import == nil || j.Status != InProgress || j.TableID != 0 || s.db.Now().Sub(j.Started) < orphanAge {
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

// importTables are the tables that imports are to fill, with the ids of these.
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

// run carries out jobs, one after the other.
func (t *jobRunner) run(ctx context.Context) {
	for t.leads(ctx) == nil {
		j, ok, err := t.next(ctx)
		switch {
		case err != nil && t.leads(ctx) == nil:
			t.log.Warn("exports and imports cannot be looked at; trying again", "error", err)
			wait(ctx, nil, retryDelay)
		case !ok:
			wait(ctx, t.wake, scanInterval)
		default:
			t.stir() // there may be more
			t.runJob(ctx, j)
		}
	}
}

// next claims the job that waits longest. An import waits for its table.
func (t *jobRunner) next(ctx context.Context) (Job, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs, err := t.jobs(ctx)
	if err != nil {
		return Job{}, false, err
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if j := jobs[id]; j.Status == InProgress && !t.taken[id] && j.TableID != 0 {
			t.taken[id] = true
			return *j, true, nil
		}
	}
	return Job{}, false, nil
}

// runJob is one attempt at a job. If its end cannot be recorded, another
// follows it.
func (t *jobRunner) runJob(ctx context.Context, j Job) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, j.ID)
	}()
	log := t.log.With("table", j.Table, "id", j.ID, "bucket", j.Bucket)
	err := t.attempt(ctx, j, log)
	switch {
	case err == nil, t.leads(ctx) != nil:
	case errors.Is(err, errSuperseded):
		log.Warn(j.kind() + " is carried out by another server, or has ended")
	default:
		log.Error(j.kind()+" could not be carried out; trying again from the start", "error", err)
		wait(ctx, nil, retryDelay)
	}
}

// attempt carries a job out and records how it ended.
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

// finish records how a job ended, and removes what is left of one that failed.
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
	log.Info(j.kind()+" is complete", "items", ended.Items, "errors", ended.Errors, "bytes", ended.Bytes, "took", ended.Ended.Sub(ended.Started))
	return nil
}

// recordEnd ends a job.
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

// progressInterval is the time between two lines in the log, and between two
// records of how far a job is.
const progressInterval = 5 * time.Second

// progressTimer tells how far a job is, now and then.
type progressTimer struct {
	now  func() time.Time
	last time.Time
}

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
