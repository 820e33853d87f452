// Package transfer moves tables to files and files to tables: exports and
// imports, in the formats of DynamoDB.
//
// The files lie in buckets, which whoever runs the database has named before;
// nothing else is read or written. What a job is and how far it came is kept in
// the database. Of the servers that share it any takes jobs and tells of them;
// the one that leads carries them out, and begins anew what another left.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/lead"
	"github.com/stator-db/stator/internal/timeid"
)

// What can be wrong with a request.
var (
	ErrNotFound = errors.New("no such job")
	ErrConflict = errors.New("the token came with another request before")
	ErrTooMany  = errors.New("too many jobs are under way")
)

const (
	maxExports   = 300                 // that may wait, as on AWS
	maxImports   = 50                  //
	tokenLife    = 8 * time.Hour       // how long a token stands for its job
	jobRetention = 90 * 24 * time.Hour // how long a job is told after its end
)

// Store makes exports and imports, and tells of them.
type Store struct {
	db      *db.DB
	buckets map[string]blob.Place
	log     *slog.Logger

	terms *lead.Work
	wake  chan struct{}
}

// topic is what servers tell each other when there is a new job.
const topic = "transfer"

// Open begins to carry out jobs between a database and buckets, and goes on with
// those that a restart, or another server, has left. The buckets stay the
// caller's to close, after Close.
func Open(ctx context.Context, d *db.DB, buckets map[string]blob.Place, log *slog.Logger) (*Store, error) {
	s := &Store{db: d, buckets: buckets, log: log, wake: make(chan struct{}, 1)}
	if _, err := s.List(ctx, false); err != nil {
		return nil, fmt.Errorf("read what is known of exports and imports: %w", err)
	}
	s.terms = lead.Begin(ctx, d.Leads, s.work)
	d.OnAnnounce(topic, func(_ context.Context, id string) error {
		if id == "" {
			s.terms.Anew()
		}
		s.stir()
		return nil
	})
	return s, nil
}

// Close ends what goes on. A job that is not complete is begun anew after the
// next start, or by another server.
func (s *Store) Close() { s.terms.Close() }

func (s *Store) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// HasBucket tells whether there is a bucket of that name.
func (s *Store) HasBucket(name string) bool { return s.buckets[name] != nil }

// Get finds an export, or an import.
func (s *Store) Get(ctx context.Context, id string, isImport bool) (Job, error) {
	record, err := s.db.Job(ctx, id)
	if err != nil {
		return Job{}, err
	}
	if record == nil {
		return Job{}, ErrNotFound
	}
	j, err := decodeJob(record)
	if err != nil {
		return Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	if (j.Import != nil) != isImport || s.isExpired(j) {
		return Job{}, ErrNotFound
	}
	return *j, nil
}

// List are all exports, or all imports, the newest first.
func (s *Store) List(ctx context.Context, imports bool) ([]Job, error) {
	jobs, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}
	var all []Job
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(jobs))) {
		if j := jobs[id]; (j.Import != nil) == imports && !s.isExpired(j) {
			all = append(all, *j)
		}
	}
	return all, nil
}

// jobs are all jobs, by id.
func (s *Store) jobs(ctx context.Context) (map[string]*Job, error) {
	records, err := s.db.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	return decodeJobs(records)
}

func (s *Store) isExpired(j *Job) bool {
	return j.Status != InProgress && s.db.Now().Sub(j.Ended) > jobRetention
}

// StartExport begins an export. If its token stands for one already, that is
// told.
func (s *Store) StartExport(ctx context.Context, j Job) (Job, error) {
	started, known, err := s.createJob(ctx, j)
	if err == nil && !known {
		s.announce(ctx, started.ID)
	}
	return started, err
}

// announce has the server that leads look at a new job.
func (s *Store) announce(ctx context.Context, id string) {
	// The record is what counts: who leads looks for it now and then.
	if err := s.db.Announce(ctx, topic, id); err != nil && ctx.Err() == nil {
		s.log.Warn("a new export or import could not be told to the other servers; it begins later", "id", id, "error", err)
	}
}

// StartImport begins an import into a new table.
func (s *Store) StartImport(ctx context.Context, j Job, def schema.Table) (Job, error) {
	started, known, err := s.createJob(ctx, j)
	if err != nil || known {
		return started, err
	}
	table, err := s.db.BeginImport(ctx, def, started.ID)
	if err != nil {
		return Job{}, errors.Join(err, s.deleteJob(context.WithoutCancel(ctx), started.ID, func(*Job) bool { return true }))
	}
	// It is carried out once its table is known.
	if started, err = s.updateJob(ctx, started.ID, started.Attempt, func(j *Job) { j.TableID, j.TableUUID = table.ID, table.UUID }); err != nil {
		return Job{}, err
	}
	s.announce(ctx, started.ID)
	return started, nil
}

// createJob makes the record of a job, or finds the one that its token stands for.
func (s *Store) createJob(ctx context.Context, j Job) (created Job, known bool, err error) {
	var expired []string
	err = s.db.AddJob(ctx, func(records map[string][]byte) (string, []byte, error) {
		jobs, err := decodeJobs(records)
		if err != nil {
			return "", nil, err
		}
		now, waiting := s.db.Now(), 0
		created, known, expired = Job{}, false, nil
		for id, other := range jobs {
			switch {
			case s.isExpired(other):
				expired = append(expired, id)
				continue
			case (other.Import != nil) != (j.Import != nil):
				continue
			case other.Status == InProgress:
				waiting++
			}
			if j.Token != "" && other.Token == j.Token && now.Sub(other.Started) < tokenLife {
				if !j.sameRequest(other) {
					return "", nil, ErrConflict
				}
				created, known = *other, true
				return "", nil, errTokenUsed
			}
		}
		if limit := map[bool]int{false: maxExports, true: maxImports}[j.Import != nil]; waiting >= limit {
			return "", nil, ErrTooMany
		}
		j.ID, j.Status, j.Started = timeid.New(now), InProgress, now.Truncate(time.Millisecond)
		created = j
		return j.ID, encodeJob(&j), nil
	})
	if err != nil && !errors.Is(err, errTokenUsed) {
		return Job{}, false, err
	}
	for _, id := range expired {
		if err := s.deleteJob(ctx, id, s.isExpired); err != nil {
			s.log.Warn("an old export or import could not be forgotten; trying again with the next", "id", id, "error", err)
		}
	}
	return created, known, nil
}

// errTokenUsed tells that a token stands for a job.
var errTokenUsed = errors.New("the token stands for a job already")

// errSuperseded tells that a job has ended, or is carried out by another server.
var errSuperseded = errors.New("the job has ended, or another server carries it out")

// updateJob alters a job that is under way and keeps its record, unless another
// attempt than the one that is named has begun.
func (s *Store) updateJob(ctx context.Context, id string, attempt int, apply func(*Job)) (updated Job, err error) {
	err = s.db.ChangeJob(ctx, id, func(record []byte) ([]byte, error) {
		if record == nil {
			return nil, errSuperseded
		}
		j, err := decodeJob(record)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", id, err)
		}
		if updated = *j; j.Status != InProgress || j.Attempt != attempt {
			return nil, errSuperseded
		}
		apply(j)
		updated = *j
		return encodeJob(j), nil
	})
	return updated, err
}

// deleteJob removes the record of a job.
func (s *Store) deleteJob(ctx context.Context, id string, when func(*Job) bool) error {
	return s.db.ChangeJob(ctx, id, func(record []byte) ([]byte, error) {
		if record == nil {
			return nil, nil
		}
		j, err := decodeJob(record)
		if err != nil || !when(j) {
			return record, err
		}
		return nil, nil
	})
}

// jobError is why a job came to nothing, in the words of its description.
type jobError struct {
	code string
	err  error
}

func (f *jobError) Error() string { return f.err.Error() }

// Unwrap is the reason.
func (f *jobError) Unwrap() error { return f.err }

// bucket is the place of a job's files.
func (s *Store) bucket(j *Job) (blob.Place, error) {
	if p := s.buckets[j.Bucket]; p != nil {
		return p, nil
	}
	return nil, &jobError{"S3NoSuchBucket", fmt.Errorf("the server has no bucket named %s; it is started with --bucket %s=<folder or URL>", j.Bucket, j.Bucket)}
}

// prefixFolder is the folder that a prefix names, with a slash at its end.
func prefixFolder(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return ""
	}
	return prefix + "/"
}
