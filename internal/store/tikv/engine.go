// Package tikv implements store.Engine on many machines, with a TiKV cluster that any number
// of processes share.
//
// DESIGN.md in this folder explains why it has this shape.
package tikv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
)

// Options configure an Engine. Only Address is required.
type Options struct {
	Address
	Log *slog.Logger // defaults to none
}

// The default durations of an Address.
const (
	defaultLease = 10 * time.Second
	defaultBeat  = 100 * time.Millisecond
)

// callTimeout is how long a call waits for a part of the cluster that does not answer. The
// election of a new region leader takes less.
const callTimeout = 25 * time.Second

// Engine is a store.Engine over a TiKV cluster.
type Engine struct {
	kv     *tikv.KVStore
	o      Options
	prefix []byte
	log    *slog.Logger

	gate       *latch.Gate
	latches    *latch.Set
	inFlight   inFlight
	snapshots  openSnapshots
	membership *membership
	clock      clusterClock

	close func() error // runs once
}

var (
	_ store.Engine      = (*Engine)(nil)
	_ store.SharedClock = (*Engine)(nil)
	_ store.Fleet       = (*Engine)(nil)
)

var limits = store.Limits{
	MaxKeyBytes:    4096,
	MaxValueBytes:  5 << 20, // TiKV limits an entry of its log to 8 MiB, and its client a pair to 6 MiB
	MaxUpdateBytes: 64 << 20,
	MaxUpdateKeys:  100_000,
}

// Healthy returns an error if the engine is closed. Whether the cluster answers, only a
// read shows.
func (e *Engine) Healthy(context.Context) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	e.gate.Leave()
	return nil
}

// Limits returns the limits above which Update fails with ErrTooLarge.
func (e *Engine) Limits() store.Limits { return limits }

// Open connects to a cluster and joins its members.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	kv, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	e, err := Join(ctx, kv, o, kv.Close)
	if err != nil {
		return nil, errors.Join(err, kv.Close())
	}
	return e, nil
}

// Join is like Open with an existing connection. Close calls disconnect.
func Join(ctx context.Context, kv *tikv.KVStore, o Options, disconnect func() error) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		kv: kv, o: o, prefix: append([]byte(o.Prefix), 0), log: o.Log,
		gate:      latch.NewGate(),
		latches:   latch.NewSet(callTimeout),
		inFlight:  inFlight{open: make(map[*attempt]struct{})},
		snapshots: openSnapshots{open: make(map[*snapshot]struct{})},
		clock:     clusterClock{log: o.Log},
	}
	var err error
	if e.membership, err = join(ctx, e); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.membership.run(background) })
	running.Go(func() { e.membership.deliver(background) })
	running.Go(func() { e.collect(background) })
	e.close = sync.OnceValue(func() error {
		e.gate.Shut()
		stop()
		running.Wait()
		e.snapshots.close()
		leaveErr := e.membership.leave()
		return errors.Join(leaveErr, disconnect())
	})
	return e, nil
}

// Close waits for the calls in progress, leaves the members and disconnects.
func (e *Engine) Close() error { return e.close() }

// now returns a new timestamp of the cluster.
func (e *Engine) now(ctx context.Context) (uint64, error) {
	ts, err := e.kv.GetOracle().GetTimestamp(ctx, &oracle.Option{TxnScope: oracle.GlobalTxnScope})
	if err != nil {
		return 0, failure("get a timestamp", err)
	}
	return ts, nil
}

// at returns the client's snapshot at a timestamp. It caches all that is read through it, so
// each call uses its own.
func (e *Engine) at(ts uint64) *txnsnapshot.KVSnapshot { return e.kv.GetSnapshot(ts) }

// key returns a key with the prefix, as it is stored in the cluster.
func (e *Engine) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(e.prefix)+len(key)), e.prefix...), key...)
}

func (e *Engine) keys(keys [][]byte) [][]byte {
	prefixed := make([][]byte, len(keys))
	for i, k := range keys {
		prefixed[i] = e.key(k)
	}
	return prefixed
}

// own returns the key of one of the engine's own records.
func (e *Engine) own(name string) []byte { return e.key(append([]byte{store.Reserved}, name...)) }

// bounds restricts a range to keys that are not reserved, and adds the prefix.
func (e *Engine) bounds(start, end []byte) (lower, upper []byte) {
	lower, upper = e.key(start), e.key([]byte{store.Reserved})
	if len(end) > 0 && end[0] != store.Reserved {
		upper = e.key(end)
	}
	return lower, upper
}

// check panics for invalid keys, and returns an error for keys that exceed the limits.
func check(keys [][]byte) error {
	store.CheckKeys(keys...)
	if len(keys) > limits.MaxUpdateKeys {
		return fmt.Errorf("%d keys declared, at most %d: %w", len(keys), limits.MaxUpdateKeys, store.ErrTooLarge)
	}
	for _, k := range keys {
		if len(k) > limits.MaxKeyBytes {
			return fmt.Errorf("key of %d bytes, at most %d: %w", len(k), limits.MaxKeyBytes, store.ErrTooLarge)
		}
	}
	return nil
}
