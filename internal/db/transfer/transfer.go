// Package transfer moves tables to files and files to tables: exports and
// imports, in the formats of DynamoDB.
//
// The files lie in buckets, which whoever runs the database has named before;
// nothing else is read or written. What a job is and how far it came is kept in
// the database, so that a restart begins it anew.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
)

// What can be wrong with a request.
var (
	ErrNotFound = errors.New("no such job")
	ErrConflict = errors.New("the token came with another request before")
	ErrTooMany  = errors.New("too many jobs are under way")
)

const (
	workers    = 2                   // jobs under way at once; others wait
	maxExports = 300                 // that may wait, as on AWS
	maxImports = 50                  //
	tokenLife  = 8 * time.Hour       // how long a token stands for its job
	keptFor    = 90 * 24 * time.Hour // how long a job is told after its end
)

// Store makes exports and imports, and tells of them.
type Store struct {
	db      *db.DB
	buckets map[string]blob.Place
	log     *slog.Logger

	stop context.CancelFunc
	work sync.WaitGroup
	wake chan struct{}

	mu    sync.Mutex
	jobs  map[string]*Job
	taken map[string]bool // those that a worker has
}

// Open begins to carry out jobs between a database and buckets, and goes on with
// those that a restart interrupted. The buckets stay the caller's to close,
// after Close.
func Open(ctx context.Context, d *db.DB, buckets map[string]blob.Place, log *slog.Logger) (*Store, error) {
	s := &Store{
		db: d, buckets: buckets, log: log,
		wake: make(chan struct{}, 1), jobs: make(map[string]*Job), taken: make(map[string]bool),
	}
	if err := s.resume(ctx); err != nil {
		return nil, fmt.Errorf("read what is known of exports and imports: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	for range workers {
		s.work.Go(func() { s.run(background) })
	}
	s.stir()
	return s, nil
}

// Close ends what goes on. A job that is not complete is begun anew after the
// next start.
func (s *Store) Close() {
	s.stop()
	s.work.Wait()
}

// resume reads the records of jobs. An import may have ended without its record
// being told, and a table may be left of one that failed.
func (s *Store) resume(ctx context.Context) error {
	records, err := s.db.Jobs(ctx)
	if err != nil {
		return err
	}
	for id, record := range records {
		j, err := decodeJob(record)
		if err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		s.jobs[id] = j
		if j.Import == nil || j.Status != InProgress {
			continue
		}
		switch t, err := s.db.Describe(j.Table); {
		case err != nil || t.Restored.Import != id:
			err = s.settle(ctx, id, &failure{"InternalFailure", errors.New("the server stopped before the table was created")})
			if err != nil {
				return err
			}
		case !t.Restored.Running:
			if err := s.settle(ctx, id, nil); err != nil {
				return err
			}
		}
	}
	return s.dropLeftTables(ctx)
}

// dropLeftTables removes the tables of imports that are not under way.
func (s *Store) dropLeftTables(ctx context.Context) error {
	for names, more := []string(nil), true; more; {
		after := ""
		if len(names) > 0 {
			after = names[len(names)-1]
		}
		names, more = s.db.Tables(after, 1000)
		for _, name := range names {
			t, err := s.db.Describe(name)
			if err != nil || t.Restored.Import == "" || !t.Restored.Running {
				continue
			}
			if j := s.jobs[t.Restored.Import]; j != nil && j.Status == InProgress {
				continue
			}
			if err := s.db.DropImport(ctx, name, t.Restored.Import); err != nil {
				return err
			}
		}
	}
	return nil
}

// HasBucket tells whether there is a bucket of that name.
func (s *Store) HasBucket(name string) bool { return s.buckets[name] != nil }

// Get finds an export, or an import.
func (s *Store) Get(id string, isImport bool) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	if j == nil || (j.Import != nil) != isImport || s.tooOld(j) {
		return Job{}, ErrNotFound
	}
	return *j, nil
}

// List are all exports, or all imports, the newest first.
func (s *Store) List(imports bool) []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Job
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.jobs))) {
		if j := s.jobs[id]; (j.Import != nil) == imports && !s.tooOld(j) {
			all = append(all, *j)
		}
	}
	return all
}

func (s *Store) tooOld(j *Job) bool {
	return j.Status != InProgress && s.db.Now().Sub(j.Ended) > keptFor
}

// StartExport begins an export. If its token stands for one already, that is
// told.
func (s *Store) StartExport(ctx context.Context, j Job) (Job, error) {
	told, _, err := s.begin(ctx, j)
	if err == nil {
		s.stir()
	}
	return told, err
}

// StartImport begins an import into a new table.
func (s *Store) StartImport(ctx context.Context, j Job, def schema.Table) (Job, error) {
	told, known, err := s.begin(ctx, j)
	if err != nil || known {
		return told, err
	}
	made, err := s.db.BeginImport(ctx, def, told.ID)
	if err != nil {
		s.mu.Lock()
		delete(s.jobs, told.ID)
		s.mu.Unlock()
		return Job{}, errors.Join(err, s.db.SaveJob(context.WithoutCancel(ctx), told.ID, nil))
	}
	// Nobody has it yet: it is offered to the workers with its table.
	if told, err = s.change(ctx, told.ID, func(j *Job) { j.TableID, j.TableUUID = made.ID, made.UUID }); err != nil {
		return Job{}, err
	}
	s.stir()
	return told, nil
}

// begin makes the record of a job, or finds the one that its token stands for.
func (s *Store) begin(ctx context.Context, j Job) (told Job, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, waiting := s.db.Now(), 0
	for id, other := range s.jobs {
		switch {
		case s.tooOld(other):
			if err := s.db.SaveJob(ctx, id, nil); err != nil {
				return Job{}, false, err
			}
			delete(s.jobs, id)
			continue
		case (other.Import != nil) != (j.Import != nil):
			continue
		case other.Status == InProgress:
			waiting++
		}
		if j.Token != "" && other.Token == j.Token && now.Sub(other.Started) < tokenLife {
			if !j.sameRequest(other) {
				return Job{}, false, ErrConflict
			}
			return *other, true, nil
		}
	}
	if most := map[bool]int{false: maxExports, true: maxImports}[j.Import != nil]; waiting >= most {
		return Job{}, false, ErrTooMany
	}
	j.ID, j.Status, j.Started = newID(now), InProgress, now.Truncate(time.Millisecond)
	if err := s.db.SaveJob(ctx, j.ID, encodeJob(&j)); err != nil {
		return Job{}, false, err
	}
	s.jobs[j.ID] = &j
	return j, false, nil
}

// change alters a job and keeps its record.
func (s *Store) change(ctx context.Context, id string, how func(*Job)) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := *s.jobs[id]
	how(&j)
	if err := s.db.SaveJob(ctx, id, encodeJob(&j)); err != nil {
		return Job{}, err
	}
	s.jobs[id] = &j
	return j, nil
}

// note alters what is told of a job while it is under way.
func (s *Store) note(id string, how func(*Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s.jobs[id])
}

// failure is why a job came to nothing, in the words of its description.
type failure struct {
	code string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

// Unwrap is the reason.
func (f *failure) Unwrap() error { return f.err }

// settle ends a job.
func (s *Store) settle(ctx context.Context, id string, why error) error {
	_, err := s.change(ctx, id, func(j *Job) {
		j.Status, j.Ended = Completed, s.db.Now().Truncate(time.Millisecond)
		if why == nil {
			return
		}
		j.Status, j.Code, j.Message = Failed, "InternalFailure", why.Error()
		var f *failure
		if errors.As(why, &f) {
			j.Code = f.code
		}
	})
	return err
}

func (s *Store) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run carries out jobs, one after the other.
func (s *Store) run(ctx context.Context) {
	for {
		j, ok := s.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		s.stir() // there may be more
		log := s.log.With("table", j.Table, "id", j.ID, "bucket", j.Bucket)
		var err error
		if j.Export != nil {
			err = s.export(ctx, j, log)
		} else {
			err = s.load(ctx, j, log)
		}
		if ctx.Err() != nil {
			return
		}
		s.end(ctx, j, err, log)
	}
}

// next claims the job that waits longest. An import waits for its table.
func (s *Store) next() (Job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[id]; j.Status == InProgress && !s.taken[id] && j.TableID != 0 {
			s.taken[id] = true
			return *j, true
		}
	}
	return Job{}, false
}

// end records how a job ended. If that cannot be recorded, the next start begins
// it anew.
func (s *Store) end(ctx context.Context, j Job, why error, log *slog.Logger) {
	kind := "an export"
	if j.Import != nil {
		kind = "an import"
	}
	if why != nil {
		log.Error(kind+" failed", "error", why)
	}
	err := s.settle(ctx, j.ID, why)
	if err == nil && why != nil && j.Import != nil {
		err = s.db.DropImport(ctx, j.Table, j.ID)
	}
	if err != nil {
		log.Error("the end of "+kind+" could not be recorded; it begins anew after the next start", "error", err)
		return
	}
	s.mu.Lock()
	delete(s.taken, j.ID)
	j = *s.jobs[j.ID]
	s.mu.Unlock()
	if why == nil {
		log.Info(kind+" is complete", "items", j.Items, "errors", j.Errors, "bytes", j.Bytes, "took", j.Ended.Sub(j.Started))
	}
}

// bucket is the place of a job's files.
func (s *Store) bucket(j *Job) (blob.Place, error) {
	if p := s.buckets[j.Bucket]; p != nil {
		return p, nil
	}
	return nil, &failure{"S3NoSuchBucket", fmt.Errorf("the server has no bucket named %s; it is started with --bucket %s=<folder or URL>", j.Bucket, j.Bucket)}
}

// progressInterval is the time between two lines in the log.
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

// folderOf is the folder that a prefix names, with a slash at its end.
func folderOf(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return ""
	}
	return prefix + "/"
}
