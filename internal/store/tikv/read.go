package tikv

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"sync"

	tikverr "github.com/tikv/client-go/v2/error"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"

	"github.com/stator-db/stator/internal/store"
)

// latest reads the committed value at the time of the read, without a timestamp. It is for
// single keys.
const latest = math.MaxUint64

// Get reads the latest value of each key.
func (e *Engine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	if err := errors.Join(ctx.Err(), check(keys)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		if err := e.membership.waitLease(ctx); err != nil {
			return nil, err
		}
		values, err := e.read(ctx, c, keys)
		// A read beyond the lease may not match the catalog that the caller has cached.
		if err != nil || e.membership.leaseValid(ctx) {
			return values, err
		}
	}
}

func (e *Engine) read(ctx context.Context, c store.Consistency, keys [][]byte) ([][]byte, error) {
	if len(keys) == 1 && !(c == store.Recent && e.o.Followers) {
		return e.readAt(ctx, latest, keys)
	}
	ts, err := e.now(ctx)
	if err != nil {
		return nil, err
	}
	if c == store.Recent && e.o.Followers {
		return e.readFrom(ctx, e.at(ts), tikvkv.ReplicaReadMixed, keys)
	}
	return e.readAt(ctx, ts, keys)
}

// readAt reads keys at a timestamp, nil for absent keys.
func (e *Engine) readAt(ctx context.Context, ts uint64, keys [][]byte) ([][]byte, error) {
	return e.readFrom(ctx, e.at(ts), tikvkv.ReplicaReadLeader, keys)
}

func (e *Engine) readFrom(ctx context.Context, view *txnsnapshot.KVSnapshot, replica tikvkv.ReplicaReadType, keys [][]byte) ([][]byte, error) {
	view.SetReplicaRead(replica)
	values := make([][]byte, len(keys))
	if len(keys) == 1 {
		got, err := view.Get(ctx, e.key(keys[0]))
		if err != nil && !tikverr.IsErrNotFound(err) {
			return nil, failure("read a key", err)
		}
		if err == nil {
			values[0] = got.Value
		}
		return values, nil
	}
	prefixed := e.keys(keys)
	got, err := view.BatchGet(ctx, prefixed)
	if err != nil {
		return nil, failure("read keys", err)
	}
	for i, k := range prefixed {
		if found, ok := got[string(k)]; ok {
			values[i] = bytes.Clone(found.Value) // a key may be read twice
		}
	}
	return values, nil
}

// openSnapshots holds the open snapshots.
type openSnapshots struct {
	mu   sync.Mutex
	last uint64 // the largest argument of oldest so far
	open map[*snapshot]struct{}
}

// oldest returns the smallest timestamp of an open snapshot, or now.
func (v *openSnapshots) oldest(now uint64) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = max(v.last, now)
	for s := range v.open {
		now = min(now, s.ts)
	}
	return now
}

// begin opens a snapshot whose timestamp is not requested yet.
func (v *openSnapshots) begin(e *Engine) *snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &snapshot{e, v.last}
	v.open[s] = struct{}{}
	return s
}

// setTimestamp sets the timestamp of a snapshot.
func (v *openSnapshots) setTimestamp(s *snapshot, ts uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.ts = ts
}

func (v *openSnapshots) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.open)
}

func (v *openSnapshots) has(s *snapshot) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, open := v.open[s]
	return open
}

// snapshot is the data at a timestamp. While it is open, the versions that it shows are kept.
type snapshot struct {
	e  *Engine
	ts uint64
}

// Snapshot returns a snapshot of the current time.
func (e *Engine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		if err := e.membership.waitLease(ctx); err != nil {
			return nil, err
		}
		// It is open before its timestamp is known, so that no version that it shows is
		// removed.
		s := e.snapshots.begin(e)
		ts, err := e.now(ctx)
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		e.snapshots.setTimestamp(s, ts)
		if e.membership.leaseValid(ctx) {
			return s, nil
		}
		_ = s.Close()
	}
}

// enter begins a call, which leave must end.
func (s *snapshot) enter(ctx context.Context) error {
	if err := s.e.gate.Enter(); err != nil {
		return err
	}
	err := ctx.Err()
	if !s.e.snapshots.has(s) {
		err = store.ErrClosed
	}
	if err != nil {
		s.e.gate.Leave()
	}
	return err
}

func (s *snapshot) leave() { s.e.gate.Leave() }

// Get reads keys at the timestamp of the snapshot.
func (s *snapshot) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	store.CheckKeys(keys...)
	return s.e.readAt(ctx, s.ts, keys)
}

// Close releases the snapshot.
func (s *snapshot) Close() error {
	s.e.snapshots.mu.Lock()
	defer s.e.snapshots.mu.Unlock()
	delete(s.e.snapshots.open, s)
	return nil
}

// Scan iterates over a range.
func (s *snapshot) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		if err := s.scan(ctx, r, yield); err != nil {
			yield(store.Pair{}, err)
		}
	}
}

// scan returns nil when yield returns false.
func (s *snapshot) scan(ctx context.Context, r store.Range, yield func(store.Pair, error) bool) error {
	lower, upper := s.e.bounds(r.Start, r.End)
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	view := s.e.at(s.ts)
	view.SetKeyOnly(r.KeysOnly)
	open := func() (iterator, error) { return view.Iter(lower, upper) }
	if r.Reverse && s.e.o.Unistore {
		open = func() (iterator, error) {
			forward, err := view.Iter(lower, upper)
			return reverse(forward, err)
		}
	} else if r.Reverse {
		open = func() (iterator, error) { return view.IterReverse(upper, lower) }
	}
	// The caller may use the engine between two steps, and close it, so each step enters
	// the gate by itself.
	var at iterator
	step := func(move func() error) (valid bool, err error) {
		if err := s.enter(ctx); err != nil {
			return false, err
		}
		defer s.leave()
		if err := move(); err != nil {
			return false, failure("scan", err)
		}
		return at.Valid(), nil
	}
	valid, err := step(func() (err error) { at, err = open(); return err })
	if at != nil {
		defer at.Close()
	}
	for ; valid && err == nil; valid, err = step(at.Next) {
		pair := store.Pair{Key: at.Key()[len(s.e.prefix):], Value: at.Value()}
		if r.KeysOnly {
			pair.Value = nil
		}
		if !yield(pair, nil) {
			return nil
		}
	}
	return err
}

// ReadRange scans the range at one timestamp.
func (e *Engine) ReadRange(ctx context.Context, r store.Range, fn func(store.Pair) (more bool)) error {
	s, err := e.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	for pair, err := range s.Scan(ctx, r) {
		if err != nil {
			return err
		}
		if !fn(pair) {
			return nil
		}
	}
	return nil
}

// iterator is what the client's scans return.
type iterator interface {
	Valid() bool
	Key() []byte
	Value() []byte
	Next() error
	Close()
}

// reverse reads all pairs of an iterator and returns them in reverse order.
func reverse(from iterator, err error) (iterator, error) {
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var all reversed
	for from.Valid() {
		all = append(all, store.Pair{Key: bytes.Clone(from.Key()), Value: bytes.Clone(from.Value())})
		if err := from.Next(); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

type reversed []store.Pair

func (r *reversed) Valid() bool   { return len(*r) > 0 }
func (r *reversed) Key() []byte   { return (*r)[len(*r)-1].Key }
func (r *reversed) Value() []byte { return (*r)[len(*r)-1].Value }
func (r *reversed) Next() error   { *r = (*r)[:len(*r)-1]; return nil }
func (r *reversed) Close()        {}
