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
	workers    = 2                // jobs under way at once; others wait
	lookEvery  = 10 * time.Second // for jobs that nobody has told of
	retryAfter = 5 * time.Second  // when the database could not be reached

	// orphaned is how long a server may take to make the table of an import.
	orphaned = time.Minute
)

// term is what this server does from when it leads until it does not.
type term struct {
	*Store
	mu    sync.Mutex
	taken map[string]bool // jobs that a worker has
}

// work carries out jobs while this server leads.
func (s *Store) work(ctx context.Context, begun func()) {
	begun()
	t := &term{Store: s, taken: make(map[string]bool)}
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
		t.tidy(ctx)
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
		return errNotOurs
	}
	return nil
}

// tidy ends what other servers have left in the middle, at once and then now
// and then.
func (t *term) tidy(ctx context.Context) {
	for t.leads(ctx) == nil {
		if err := t.endOrphans(ctx); err != nil && t.leads(ctx) == nil {
			t.log.Warn("what is left of imports could not be removed; trying again", "error", err)
		}
		wait(ctx, nil, lookEvery)
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

// endOrphans ends the imports whose tables were never made, and removes the
// tables of those that are not under way.
func (s *Store) endOrphans(ctx context.Context) error {
	tables := s.importing() // before the jobs: the record of one is made before its table
	jobs, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	for id, j := range jobs {
		if j.Import == nil || j.Status != InProgress || j.TableID != 0 || s.db.Now().Sub(j.Started) < orphaned {
			continue
		}
		if *j, err = s.settle(ctx, *j, &failure{"InternalFailure", errors.New("the server stopped before the table was created")}); err != nil && !errors.Is(err, errNotOurs) {
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

// importing are the tables that imports are to fill, with the ids of these.
func (s *Store) importing() map[string]string {
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
func (t *term) run(ctx context.Context) {
	for t.leads(ctx) == nil {
		j, ok, err := t.next(ctx)
		switch {
		case err != nil && t.leads(ctx) == nil:
			t.log.Warn("exports and imports cannot be looked at; trying again", "error", err)
			wait(ctx, nil, retryAfter)
		case !ok:
			wait(ctx, t.wake, lookEvery)
		default:
			t.stir() // there may be more
			t.carryOut(ctx, j)
		}
	}
}

// next claims the job that waits longest. An import waits for its table.
func (t *term) next(ctx context.Context) (Job, bool, error) {
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

// carryOut is one attempt at a job. If its end cannot be recorded, another
// follows it.
func (t *term) carryOut(ctx context.Context, j Job) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, j.ID)
	}()
	log := t.log.With("table", j.Table, "id", j.ID, "bucket", j.Bucket)
	err := t.attempt(ctx, j, log)
	switch {
	case err == nil, t.leads(ctx) != nil:
	case errors.Is(err, errNotOurs):
		log.Warn(j.kind() + " is carried out by another server, or has ended")
	default:
		log.Error(j.kind()+" could not be carried out; trying again from the start", "error", err)
		wait(ctx, nil, retryAfter)
	}
}

// attempt carries a job out and records how it ended.
func (s *Store) attempt(ctx context.Context, j Job, log *slog.Logger) error {
	before := j.Attempt
	j, err := s.change(ctx, j.ID, before, func(j *Job) {
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
		err = s.load(ctx, j, log)
	}
	if lost := s.leads(ctx); lost != nil {
		return lost
	}
	if errors.Is(err, errNotOurs) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	return s.end(ctx, j, err, log)
}

// end records how a job ended, and removes what is left of one that failed.
func (s *Store) end(ctx context.Context, j Job, why error, log *slog.Logger) error {
	told, err := s.settle(ctx, j, why)
	if err != nil && !(errors.Is(err, errNotOurs) && told.Status == Failed) {
		return err
	}
	if told.Status == Failed {
		if why != nil {
			log.Error(j.kind()+" failed", "error", why)
		}
		if j.Import != nil {
			return s.db.DropImport(ctx, j.Table, j.ID)
		}
		return s.discard(ctx, &j)
	}
	log.Info(j.kind()+" is complete", "items", told.Items, "errors", told.Errors, "bytes", told.Bytes, "took", told.Ended.Sub(told.Started))
	return nil
}

// settle ends a job.
func (s *Store) settle(ctx context.Context, j Job, why error) (Job, error) {
	return s.change(ctx, j.ID, j.Attempt, func(j *Job) {
		j.Status, j.Files = Completed, nil
		if j.Ended.IsZero() {
			j.Ended = s.db.Now().Truncate(time.Millisecond)
		}
		if why == nil {
			return
		}
		j.Status, j.Code, j.Message = Failed, "InternalFailure", why.Error()
		var f *failure
		if errors.As(why, &f) {
			j.Code = f.code
		}
	})
}

// progressInterval is the time between two lines in the log, and between two
// records of how far a job is.
const progressInterval = 5 * time.Second

// teller tells how far a job is, now and then.
type teller struct {
	now  func() time.Time
	last time.Time
}

func (t *teller) due() bool {
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
