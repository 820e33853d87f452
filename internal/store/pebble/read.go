package pebble

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// Get reads each key and waits until what it has read is durable. Recent is no cheaper
// than Strong here.
func (e *Engine) Get(ctx context.Context, _ store.Consistency, keys ...[]byte) ([][]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	values, err := readAll(ctx, e, keys)
	if err != nil {
		return nil, err
	}
	if err := e.waitReadDurable(ctx, keys...); err != nil {
		return nil, err
	}
	return values, nil
}

// waitReadDurable waits until the values of keys that were just read are durable. Pebble
// shows a batch to readers before it is synced.
func (e *Engine) waitReadDurable(ctx context.Context, keys ...[]byte) error {
	if e.skipReadWait {
		return nil
	}
	return e.inFlight.WaitDurable(ctx, e.stripes.Newest(keys...))
}

// keyReader reads one key; nil if it is absent. The value must not be changed.
type keyReader interface {
	read(key []byte) ([]byte, error)
}

// readAll reads keys, nil for absent ones.
func readAll(ctx context.Context, r keyReader, keys [][]byte) ([][]byte, error) {
	store.CheckKeys(keys...)
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := r.read(k)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// read returns the newest value.
func (e *Engine) read(key []byte) ([]byte, error) {
	value, version := e.values.Get(key)
	if value != nil {
		return value, nil
	}
	value, err := cloneValue(e.db.Get(key))
	if err == nil && value != nil {
		e.values.Add(key, value, version)
	}
	return value, err
}

// snapshotReader reads from a snapshot.
type snapshotReader struct{ *pebble.Snapshot }

func (p snapshotReader) read(key []byte) ([]byte, error) { return cloneValue(p.Get(key)) }

// cloneValue copies a value that Pebble found; nil if the key is absent.
func cloneValue(v []byte, closer io.Closer, err error) ([]byte, error) {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("get", err)
	}
	value := bytes.Clone(v) // stored values are never empty, so it is not nil
	return value, closer.Close()
}
