package db

import (
	"context"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Checkpoint is what was saved under a name, nil if nothing was.
func (d *DB) Checkpoint(ctx context.Context, name string) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, checkpointKey(name))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// SaveCheckpoints saves values by their names, all at once. They are durable
// when it returns. No value is empty.
func (d *DB) SaveCheckpoints(ctx context.Context, values map[string][]byte) error {
	keys := make([][]byte, 0, len(values))
	for name := range values {
		keys = append(keys, checkpointKey(name))
	}
	err := d.engine.Update(ctx, keys, func(tx store.Tx) error {
		for name, value := range values {
			tx.Set(checkpointKey(name), value)
		}
		return nil
	})
	return err
}

func checkpointKey(name string) []byte { return keyspace.Meta("checkpoint/" + name) }
