package db

import (
	"bytes"
	"context"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Jobs are records of long work, kept so that a restart does not forget it.
// What is in them is the business of who does the work.

// SaveJob keeps a record under an id; one that is empty is forgotten.
func (d *DB) SaveJob(ctx context.Context, id string, record []byte) error {
	key := keyspace.Job(id)
	_, err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		if len(record) == 0 {
			tx.Delete(key)
		} else {
			tx.Set(key, record)
		}
		return nil
	})
	return err
}

// Jobs are all records, by id.
func (d *DB) Jobs(ctx context.Context) (map[string][]byte, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	jobs := make(map[string][]byte)
	start, end := keyspace.JobSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		jobs[string(pair.Key[1:])] = bytes.Clone(pair.Value)
	}
	return jobs, nil
}
