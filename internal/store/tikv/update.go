package tikv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/stator-db/stator/internal/store"
)

// attempts is how often an Update is tried against others before it gives up.
const attempts = 40

// Update runs an optimistic transaction: the declared keys are fetched in one
// batch, those that fn does not write are locked, and a conflict tries again.
// Who shares a key within this process waits at a latch instead.
func (e *Engine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := errors.Join(ctx.Err(), check(keys)); err != nil {
		return err
	}
	held, err := e.latches.Lock(ctx, nil, keys)
	if err != nil {
		return err
	}
	defer e.latches.Unlock(held)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range attempts {
		err := e.try(ctx, keys, fn)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := pause(ctx, time.Millisecond<<min(i, 6)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d attempts met other updates of the same keys: %w", attempts, store.ErrConflict)
}

// pause waits for a random part of d.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(d)):
		return nil
	}
}

// outcomeWindow is for how long an attempt whose outcome is unknown can still
// commit: the client allows one-phase commits 2 s after it last checked, and
// the rest is for clocks.
const outcomeWindow = 3 * time.Second

// try is one attempt of an Update.
func (e *Engine) try(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.fleet.await(ctx); err != nil {
		return err
	}
	one := e.flights.begin()
	err := e.attempt(ctx, one, keys, fn)
	if errors.Is(err, store.ErrUnknownOutcome) {
		time.AfterFunc(outcomeWindow, func() { e.flights.end(one) })
	} else {
		e.flights.end(one)
	}
	return err
}

func (e *Engine) attempt(ctx context.Context, one *flight, keys [][]byte, fn func(store.Tx) error) error {
	start, err := e.now(ctx)
	if err != nil {
		return err
	}
	e.flights.is(one, start)
	txn, err := e.begin(start)
	if err != nil {
		return err
	}
	t := &tx{stamp: store.Stamp(start), wrote: make(map[string][]byte)}
	if err := t.load(ctx, e, keys); err != nil {
		return err
	}
	if err := t.run(fn); err != nil {
		return err
	}
	if len(t.wrote) == 0 {
		return nil
	}
	if err := t.fill(ctx, e, txn, keys); err != nil {
		return failure("prepare an update", err)
	}
	txn.SetSchemaLeaseChecker(e.fleet)
	return e.commit(ctx, txn)
}

// begin is an optimistic transaction with a timestamp.
func (e *Engine) begin(start uint64) (*transaction.KVTxn, error) {
	txn, err := e.kv.Begin(tikvStart(start))
	if err != nil {
		return nil, failure("begin a transaction", err)
	}
	txn.SetEnable1PC(!e.o.Unistore)
	txn.SetEnableAsyncCommit(!e.o.Unistore)
	return txn, nil
}

// commit ends a transaction. From here on a caller who gives up does not end
// it: whether it took effect would be unknown.
func (e *Engine) commit(ctx context.Context, txn *transaction.KVTxn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if e.o.Unistore && txn.Size() > unistoreEntry {
		defer oneKeyPerRequest()()
	}
	err := txn.Commit(ctx)
	if err == nil {
		return nil
	}
	if tikverr.IsErrorUndetermined(err) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("commit: %w: %w", store.ErrUnknownOutcome, err)
	}
	return failure("commit", err)
}

// tx is one run of an Update's fn.
type tx struct {
	stamp store.Stamp
	read  map[string][]byte // of the declared keys; nil if absent
	wrote map[string][]byte // nil if deleted
	size  int
	err   error // the first limit exceeded
}

func (t *tx) load(ctx context.Context, e *Engine, keys [][]byte) error {
	t.read = make(map[string][]byte, len(keys))
	values, err := e.readAt(ctx, uint64(t.stamp), keys)
	if err != nil {
		return err
	}
	for i, k := range keys {
		t.read[string(k)] = values[i]
	}
	return nil
}

// run returns fn's error, or else that of a limit exceeded.
func (t *tx) run(fn func(store.Tx) error) error {
	if err := fn(t); err != nil {
		return err
	}
	if n := len(t.wrote); n > limits.MaxUpdateKeys {
		t.exceeds("keys", n, limits.MaxUpdateKeys)
	}
	return t.err
}

// fill hands what fn wrote to the transaction, and locks what it only read: so
// every key that the Update depends on is written or locked, and of two that
// share one the later must wait or try again.
func (t *tx) fill(ctx context.Context, e *Engine, txn *transaction.KVTxn, keys [][]byte) error {
	for key, value := range t.wrote {
		var err error
		if value == nil {
			err = txn.Delete(e.key([]byte(key)))
		} else {
			err = txn.Set(e.key([]byte(key)), value)
		}
		if err != nil {
			return err
		}
	}
	onlyRead := slices.DeleteFunc(slices.Clone(keys), func(k []byte) bool {
		_, written := t.wrote[string(k)]
		return written
	})
	if len(onlyRead) == 0 {
		return nil
	}
	return txn.LockKeys(ctx, tikvkv.NewLockCtx(txn.StartTS(), tikvkv.LockNoWait, time.Now()), e.keys(onlyRead)...)
}

// Get reads a declared key.
func (t *tx) Get(key []byte) (value []byte, ok bool) {
	before, declared := t.read[string(key)]
	if !declared {
		panic(fmt.Sprintf("store: Get of key %x, which the Update did not declare", key))
	}
	if after, written := t.wrote[string(key)]; written {
		return after, after != nil
	}
	return before, before != nil
}

// Set writes a key.
func (t *tx) Set(key, value []byte) {
	if len(value) == 0 {
		panic(fmt.Sprintf("store: Set of key %x to an empty value", key))
	}
	t.write(key, value)
}

// Delete removes a key.
func (t *tx) Delete(key []byte) { t.write(key, nil) }

// Stamp is the stamp of the commit.
func (t *tx) Stamp() store.Stamp { return t.stamp }

func (t *tx) write(key, value []byte) {
	store.CheckKeys(key)
	t.size += len(key) + len(value)
	switch {
	case t.err != nil:
		return
	case len(key) > limits.MaxKeyBytes:
		t.exceeds("bytes of key", len(key), limits.MaxKeyBytes)
	case len(value) > limits.MaxValueBytes:
		t.exceeds("bytes of value", len(value), limits.MaxValueBytes)
	case t.size > limits.MaxUpdateBytes:
		t.exceeds("bytes", t.size, limits.MaxUpdateBytes)
	default:
		t.wrote[string(key)] = value
	}
}

func (t *tx) exceeds(what string, have, most int) {
	t.err = fmt.Errorf("%d %s, at most %d: %w", have, what, most, store.ErrTooLarge)
}
