// Package transfer exports tables to files and imports files to tables, in the
// formats of DynamoDB.
//
// The files are in buckets that the operator has configured; nothing else is read
// or written. The jobs and their progress are kept in the database. Any of the
// servers that share it accepts jobs and describes them; the leader runs them, and
// restarts those that another server left unfinished.
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
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/timeid"
)

// Errors that a request can cause.
var (
	ErrNotFound = errors.New("job not found")
	ErrConflict = errors.New("the token was used with a different request")
	ErrTooMany  = errors.New("too many jobs are in progress")
)

const (
	maxExports   = 300                 // in progress at once, as on AWS
	maxImports   = 50                  //
	tokenLife    = 8 * time.Hour       // how long a token identifies its job
	jobRetention = 90 * 24 * time.Hour // how long a job is listed after its end
)

// Store starts, runs and describes exports and imports.
type Store struct {
	db      *db.DB
	buckets map[string]blob.Place
	log     *slog.Logger

	background lead.Work
	wake       *clock.Wake
}

// topic is the topic of messages between servers that announce a new job.
const topic = "transfer"

// Open starts to run jobs between a database and buckets, and resumes those that a
// restart or another server has left unfinished. The caller closes the buckets,
// after Close.
func Open(ctx context.Context, d *db.DB, buckets map[string]blob.Place, log *slog.Logger) (*Store, error) {
	s := &Store{db: d, buckets: buckets, log: log, wake: d.Clock().NewWake()}
	if _, err := s.List(ctx, false); err != nil {
		return nil, fmt.Errorf("read the records of exports and imports: %w", err)
	}
	s.background.Start(ctx, d.Clock(), d.Leads, s.work)
	d.Subscribe(topic, func(_ context.Context, id string) error {
		if id == "" {
			s.background.Restart()
		}
		s.wake.Signal()
		return nil
	})
	return s, nil
}

// Close stops the work in progress. An unfinished job is started again after the
// next Open, or by another server.
func (s *Store) Close() { s.background.Close() }

// HasBucket reports whether a bucket with that name is configured.
func (s *Store) HasBucket(name string) bool { return s.buckets[name] != nil }

// Get returns an export, or an import.
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

// List returns all exports, or all imports, the newest first.
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

// jobs returns all jobs by id.
func (s *Store) jobs(ctx context.Context) (map[string]*Job, error) {
	records, err := s.db.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	return decodeJobs(records)
}

func (s *Store) isExpired(j *Job) bool {
	return j.Status != InProgress && s.isPast(j.Ended, jobRetention)
}

// isPast reports whether a duration has passed since a time, by a clock that is
// trusted.
func (s *Store) isPast(t time.Time, after time.Duration) bool {
	return s.db.Clock().Since(t) >= after && s.db.Clock().Trusted()
}

// StartExport starts an export. If the token of the request belongs to an earlier
// job, it returns that one.
func (s *Store) StartExport(ctx context.Context, j Job) (Job, error) {
	started, exists, err := s.createJob(ctx, j)
	if err == nil && !exists {
		s.announce(ctx, started.ID)
	}
	return started, err
}

// announce makes the leader look for a new job.
func (s *Store) announce(ctx context.Context, id string) {
	// A lost message only delays the job: the leader scans the records regularly.
	if err := s.db.Broadcast(ctx, topic, id); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot announce a job to the other servers; it starts with the next scan", "id", id, "error", err)
	}
}

// StartImport starts an import into a new table.
func (s *Store) StartImport(ctx context.Context, j Job, def schema.Table) (Job, error) {
	started, exists, err := s.createJob(ctx, j)
	if err != nil || exists {
		return started, err
	}
	table, err := s.db.BeginImport(ctx, def, started.ID)
	if err != nil {
		return Job{}, errors.Join(err, s.deleteJob(context.WithoutCancel(ctx), started.ID, func(*Job) bool { return true }))
	}
	// The leader runs the job once its record names the table.
	if started, err = s.updateJob(ctx, started.ID, started.Attempt, func(j *Job) { j.TableID, j.TableUUID = table.ID, table.UUID }); err != nil {
		return Job{}, err
	}
	s.announce(ctx, started.ID)
	return started, nil
}

// createJob writes the record of a new job, or returns the job to which the token
// belongs.
func (s *Store) createJob(ctx context.Context, j Job) (created Job, exists bool, err error) {
	var expired []string
	err = s.db.AddJob(ctx, func(records map[string][]byte) (string, []byte, error) {
		jobs, err := decodeJobs(records)
		if err != nil {
			return "", nil, err
		}
		now, running := s.db.Now(), 0
		created, exists, expired = Job{}, false, nil
		for id, other := range jobs {
			switch {
			case s.isExpired(other):
				expired = append(expired, id)
				continue
			case (other.Import != nil) != (j.Import != nil):
				continue
			case other.Status == InProgress:
				running++
			}
			if j.Token != "" && other.Token == j.Token && !s.isPast(other.Started, tokenLife) {
				if !j.sameRequest(other) {
					return "", nil, ErrConflict
				}
				created, exists = *other, true
				return "", nil, errTokenUsed
			}
		}
		if limit := map[bool]int{false: maxExports, true: maxImports}[j.Import != nil]; running >= limit {
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
			s.log.Warn("cannot delete the record of an expired job; retrying with the next job", "id", id, "error", err)
		}
	}
	return created, exists, nil
}

// errTokenUsed is returned when a token belongs to a job.
var errTokenUsed = errors.New("the token belongs to an earlier job")

// errSuperseded is returned when this server must not continue a job.
var errSuperseded = errors.New("the job has ended, or another server runs it")

// updateJob applies a change to the record of a job that is in progress. It returns
// errSuperseded if a different attempt has started.
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

// deleteJob removes the record of a job if when returns true for it.
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

// jobError is the reason why a job failed, with the code for its description.
type jobError struct {
	code string
	err  error
}

func (f *jobError) Error() string { return f.err.Error() }

// Unwrap returns the reason.
func (f *jobError) Unwrap() error { return f.err }

// bucket returns the bucket of a job.
func (s *Store) bucket(j *Job) (blob.Place, error) {
	if p := s.buckets[j.Bucket]; p != nil {
		return p, nil
	}
	return nil, &jobError{"S3NoSuchBucket", fmt.Errorf("the server has no bucket named %s; start it with --bucket %s=<folder or URL>", j.Bucket, j.Bucket)}
}

// prefixFolder returns a prefix as a folder, with a slash at its end.
func prefixFolder(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return ""
	}
	return prefix + "/"
}
