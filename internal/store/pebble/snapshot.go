package pebble

import (
	"context"
	"iter"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// snapshot is a Pebble snapshot in which everything is durable.
type snapshot struct {
	engine *Engine

	mu   sync.RWMutex // Pebble panics when a closed snapshot is used
	view *pebble.Snapshot
}

// Snapshot takes a snapshot and waits until all that it can show is durable.
func (e *Engine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &snapshot{engine: e, view: e.db.NewSnapshot()}
	if !e.skipReadWait {
		if err := e.inFlight.WaitDurable(ctx, e.inFlight.Newest()); err != nil {
			_ = s.view.Close()
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.snapshots[s] = struct{}{}
	return s, nil
}

// Get reads each key in the snapshot.
func (s *snapshot) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := s.engine.gate.Enter(); err != nil {
		return nil, err
	}
	defer s.engine.gate.Leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.view == nil {
		return nil, store.ErrClosed
	}
	return readAll(ctx, snapshotReader{s.view}, keys)
}

// Scan iterates over a range of the snapshot.
func (s *snapshot) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		if err := s.scan(ctx, r, yield); err != nil {
			yield(store.Pair{}, err)
		}
	}
}

// scan returns nil when yield returns false.
func (s *snapshot) scan(ctx context.Context, r store.Range, yield func(store.Pair, error) bool) error {
	if err := s.engine.gate.Enter(); err != nil {
		return err
	}
	defer s.engine.gate.Leave()
	it, err := s.iterator(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }() // its error is that of it.Error
	return scan(ctx, it, r, yield)
}

// iterator stays valid when the snapshot is closed.
func (s *snapshot) iterator(ctx context.Context, r store.Range) (*pebble.Iterator, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.view == nil {
		return nil, store.ErrClosed
	}
	it, err := s.view.NewIterWithContext(ctx, s.engine.prefixes.options(r))
	if err != nil {
		return nil, failure("scan", err)
	}
	return it, nil
}

// Close releases the snapshot.
func (s *snapshot) Close() error {
	if err := s.engine.gate.Enter(); err != nil {
		return nil // closed with the engine
	}
	defer s.engine.gate.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		return nil
	}
	s.engine.mu.Lock()
	delete(s.engine.snapshots, s)
	s.engine.mu.Unlock()
	view := s.view
	s.view = nil
	return view.Close()
}
