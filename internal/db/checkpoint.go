package db

import (
	"context"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Checkpoint returns the value that was saved under a name, or nil if there is
// none.
func (d *DB) Checkpoint(ctx context.Context, name string) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, checkpointKey(name))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// SaveCheckpoints saves values by name, in one update. They are durable when it
// returns. No value may be empty.
func (d *DB) SaveCheckpoints(ctx context.Context, values map[string][]byte) error {
	keys := make([][]byte, 0, len(values))
	for name := range values {
		keys = append(keys, checkpointKey(name))
	}
	err := d.update(ctx, keys, func(tx store.Tx) error {
		for name, value := range values {
			tx.Set(checkpointKey(name), value)
		}
		return nil
	})
	return err
}

func checkpointKey(name string) []byte { return keyspace.Meta("checkpoint/" + name) }
