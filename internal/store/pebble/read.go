package pebble

import (
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// Get reads each key and waits until what it read is durable. Recent is no
// cheaper than Strong here.
func (e *Engine) Get(ctx context.Context, _ store.Consistency, keys ...[]byte) ([][]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	values, err := readAll(ctx, e.db, keys)
	if err != nil {
		return nil, err
	}
	if err := e.settle(ctx, keys...); err != nil {
		return nil, err
	}
	return values, nil
}

// settle waits until the values of keys that were just read are durable.
// Pebble shows a batch before it is synced.
func (e *Engine) settle(ctx context.Context, keys ...[]byte) error {
	if e.showEarly {
		return nil
	}
	return e.flights.wait(ctx, e.stripes.newest(keys...))
}

// reader is the database or a snapshot of it.
type reader interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
}

func readAll(ctx context.Context, r reader, keys [][]byte) ([][]byte, error) {
	store.CheckKeys(keys...)
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := read(r, k)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// read returns a copy of the value of key, nil if there is none.
func read(r reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("get", err)
	}
	// Stored values are never empty, so the copy is never nil.
	value := append([]byte(nil), v...)
	return value, closer.Close()
}
