// Package tikv is the store of many machines: a TiKV cluster, shared by any
// number of processes.
//
// DESIGN.md beside this file tells why it has this shape.
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

// Options say which cluster to use, and how. Address is all that is needed.
type Options struct {
	Address
	Log *slog.Logger // nothing is logged unless set
}

// The durations that an Address can leave out.
const (
	defaultLease = 10 * time.Second
	defaultBeat  = 100 * time.Millisecond
)

// patience is how long a call waits for a part of the cluster that does not
// answer. It is longer than the election of a new leader takes.
const patience = 25 * time.Second

// Engine is a store.Engine over a TiKV cluster.
type Engine struct {
	kv     *tikv.KVStore
	o      Options
	prefix []byte
	log    *slog.Logger

	gate    *latch.Gate
	latches *latch.Set
	flights flights
	views   views
	fleet   *fleet

	close func() error // runs once
}

var _ store.Engine = (*Engine)(nil)

var limits = store.Limits{
	MaxKeyBytes:    4096,
	MaxValueBytes:  5 << 20, // one write of TiKV's log takes 8 MiB, and one pair of its client 6 MiB
	MaxUpdateBytes: 64 << 20,
	MaxUpdateKeys:  100_000,
}

// Limits tells what Update refuses.
func (e *Engine) Limits() store.Limits { return limits }

// Open connects to a cluster and joins the processes that use it.
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

// Join is Open over a connection, which disconnect closes in the end.
func Join(ctx context.Context, kv *tikv.KVStore, o Options, disconnect func() error) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		kv: kv, o: o, prefix: append([]byte(o.Prefix), 0), log: o.Log,
		gate:    latch.NewGate(),
		latches: latch.NewSet(patience),
		flights: flights{open: make(map[*flight]struct{})},
		views:   views{open: make(map[*snapshot]struct{})},
	}
	var err error
	if e.fleet, err = join(ctx, e); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.fleet.beat(background) })
	running.Go(func() { e.fleet.listen(background) })
	running.Go(func() { e.collect(background) })
	e.close = sync.OnceValue(func() error {
		e.gate.Shut()
		stop()
		running.Wait()
		e.views.close()
		leaveErr := e.fleet.leave()
		return errors.Join(leaveErr, disconnect())
	})
	return e, nil
}

// Close waits for the calls in progress, leaves the fleet and disconnects.
func (e *Engine) Close() error { return e.close() }

// now is a new timestamp of the cluster.
func (e *Engine) now(ctx context.Context) (uint64, error) {
	ts, err := e.kv.GetOracle().GetTimestamp(ctx, &oracle.Option{TxnScope: oracle.GlobalTxnScope})
	if err != nil {
		return 0, failure("get a timestamp", err)
	}
	return ts, nil
}

// at is the cluster's data at a timestamp. The library's snapshot remembers
// all that is read through it, so each call takes its own.
func (e *Engine) at(ts uint64) *txnsnapshot.KVSnapshot { return e.kv.GetSnapshot(ts) }

// key is where a key lies in the cluster, which others may use as well.
func (e *Engine) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(e.prefix)+len(key)), e.prefix...), key...)
}

func (e *Engine) keys(keys [][]byte) [][]byte {
	placed := make([][]byte, len(keys))
	for i, k := range keys {
		placed[i] = e.key(k)
	}
	return placed
}

// own is the key of one of the engine's own records.
func (e *Engine) own(name string) []byte { return e.key(append([]byte{store.Reserved}, name...)) }

// bounds clips a range to the keys of users.
func (e *Engine) bounds(start, end []byte) (lower, upper []byte) {
	lower, upper = e.key(start), e.key([]byte{store.Reserved})
	if len(end) > 0 && end[0] != store.Reserved {
		upper = e.key(end)
	}
	return lower, upper
}

// check refuses keys that no engine takes, and those that are too long.
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
