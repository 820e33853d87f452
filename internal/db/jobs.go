package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Jobs are records of long work, kept so that a restart does not forget it and
// every server that shares the data knows it. What is in them is the business
// of who does the work.

// Job is the record of an id, nil if there is none.
func (d *DB) Job(ctx context.Context, id string) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, keyspace.Job(id))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// Jobs are all records, by id.
func (d *DB) Jobs(ctx context.Context) (map[string][]byte, error) {
	jobs, _, err := d.jobs(ctx)
	return jobs, err
}

// jobs are all records, and how many were ever added.
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
	jobs = make(map[string][]byte)
	start, end := keyspace.JobSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, 0, err
		}
		jobs[string(pair.Key[1:])] = bytes.Clone(pair.Value)
	}
	return jobs, addedOf(stored[0]), nil
}

// jobsAdded is where it is counted how many jobs were ever added.
var jobsAdded = keyspace.Meta("jobs added")

func addedOf(stored []byte) uint64 {
	if len(stored) != 8 {
		return 0 // before the first
	}
	return binary.BigEndian.Uint64(stored)
}

// errJobAdded tells that a job was added by another meanwhile.
var errJobAdded = errors.New("another job was added")

// addAttempts is how often a job is added while others are in the way.
const addAttempts = 100

// AddJob adds the record that decide makes, and tells those that are there. No
// other is added in between, on any server: it is asked again if one was. An
// error of it is returned, and nothing is added.
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
		err = d.engine.Update(ctx, [][]byte{key, jobsAdded}, func(tx store.Tx) error {
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
	return fmt.Errorf("%d attempts to add a job met others: %w", addAttempts, store.ErrUnavailable)
}

// ChangeJob makes a record of the one that is there, nil if there is none. If
// it becomes empty it is forgotten. how may be called more than once; an error
// of it is returned, and nothing is changed.
func (d *DB) ChangeJob(ctx context.Context, id string, change func(before []byte) (after []byte, err error)) error {
	key := keyspace.Job(id)
	err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		before, _ := tx.Get(key)
		after, err := change(before)
		switch {
		case err != nil:
			return err
		case len(after) == 0:
			tx.Delete(key)
		default:
			tx.Set(key, after)
		}
		return nil
	})
	return err
}
