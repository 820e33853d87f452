package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Jobs are records of long-running work. They are stored, so that they survive a
// restart and all servers that share the data can read them. Their contents are
// up to the package that does the work.

// Job returns the record of a job, or nil if it does not exist.
func (d *DB) Job(ctx context.Context, id string) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, keyspace.Job(id))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// Jobs returns the records of all jobs, by id.
func (d *DB) Jobs(ctx context.Context) (map[string][]byte, error) {
	jobs, _, err := d.jobs(ctx)
	return jobs, err
}

// jobs returns the records of all jobs, by id, and how many jobs were ever added.
func (d *DB) jobs(ctx context.Context) (jobs map[string][]byte, added uint64, err error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer snap.Close()
	stored, err := snap.Get(ctx, jobsAdded)
	if err != nil {
		return nil, 0, err
	}
	start, end := keyspace.JobSpan()
	jobs, err = records(ctx, snap, store.Range{Start: start, End: end})
	return jobs, addedOf(stored[0]), err
}

// jobsAdded is the key of the number of jobs that were ever added.
var jobsAdded = keyspace.Meta("jobs added")

func addedOf(stored []byte) uint64 {
	if len(stored) != 8 {
		return 0 // no job was ever added
	}
	return binary.BigEndian.Uint64(stored)
}

// errJobAdded reports that another job was added since the jobs were read.
var errJobAdded = errors.New("another job was added")

// addAttempts is how often AddJob tries while other jobs are being added.
const addAttempts = 100

// AddJob adds the job that decide returns. decide gets the records of all jobs.
// If another job is added before this one is, on any server, decide is called
// again. If it returns an error, AddJob returns that error and adds nothing.
func (d *DB) AddJob(ctx context.Context, decide func(jobs map[string][]byte) (id string, record []byte, err error)) error {
	for range addAttempts {
		jobs, added, err := d.jobs(ctx)
		if err != nil {
			return err
		}
		id, record, err := decide(jobs)
		if err != nil {
			return err
		}
		key := keyspace.Job(id)
		err = d.update(ctx, [][]byte{key, jobsAdded}, func(tx store.Tx) error {
			stored, _ := tx.Get(jobsAdded)
			if _, taken := tx.Get(key); taken || addedOf(stored) != added {
				return errJobAdded
			}
			tx.Set(key, record)
			tx.Set(jobsAdded, binary.BigEndian.AppendUint64(nil, added+1))
			return nil
		})
		if !errors.Is(err, errJobAdded) {
			return err
		}
	}
	return fmt.Errorf("add a job: %d attempts conflicted with other jobs: %w", addAttempts, store.ErrUnavailable)
}

// ChangeJob replaces the record of a job by the one that change returns; before
// is nil if the job does not exist. An empty record deletes the job. change may
// be called more than once. If it returns an error, ChangeJob returns that
// error and changes nothing.
func (d *DB) ChangeJob(ctx context.Context, id string, change func(before []byte) (after []byte, err error)) error {
	return d.changeRecord(ctx, keyspace.Job(id), change)
}
