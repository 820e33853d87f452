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

// maxAttempts is how often an Update is attempted before it fails with ErrConflict.
const maxAttempts = 40

// Update runs an optimistic transaction: the declared keys are read in one batch, those that
// fn does not write are locked, and it is retried after a conflict. Updates of this process
// that share a key wait at a latch instead.
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for i := range maxAttempts {
		err := e.try(ctx, keys, fn)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := sleepRandom(ctx, time.Millisecond<<min(i, 6)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d attempts conflicted with other updates of the same keys: %w", maxAttempts, store.ErrConflict)
}

// sleepRandom waits for a random part of d.
func sleepRandom(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(d)):
		return nil
	}
}

// outcomeWindow is how long an attempt with an unknown outcome can still commit: the client
// allows one-phase commits up to 2 s after its last check, and the rest is for clock drift.
const outcomeWindow = 3 * time.Second

// try makes one attempt of an Update, which is in flight until its outcome is known.
func (e *Engine) try(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.membership.waitLease(ctx); err != nil {
		return err
	}
	a := e.inFlight.begin()
	err := e.run(ctx, a, keys, fn)
	if errors.Is(err, store.ErrUnknownOutcome) {
		time.AfterFunc(outcomeWindow, func() { e.inFlight.end(a) })
	} else {
		e.inFlight.end(a)
	}
	return err
}

// run reads the declared keys, runs fn and commits.
func (e *Engine) run(ctx context.Context, a *attempt, keys [][]byte, fn func(store.Tx) error) error {
	start, err := e.now(ctx)
	if err != nil {
		return err
	}
	e.inFlight.setTimestamp(a, start)
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
	txn.SetSchemaLeaseChecker(e.membership)
	return e.commit(ctx, txn)
}

// begin returns an optimistic transaction with a timestamp.
func (e *Engine) begin(start uint64) (*transaction.KVTxn, error) {
	txn, err := e.kv.Begin(startTS(start))
	if err != nil {
		return nil, failure("begin a transaction", err)
	}
	txn.SetEnable1PC(!e.o.Unistore)
	txn.SetEnableAsyncCommit(!e.o.Unistore)
	return txn, nil
}

// commit commits a transaction. It ignores cancellation by the caller, after which the outcome
// would be unknown.
func (e *Engine) commit(ctx context.Context, txn *transaction.KVTxn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
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

// run runs fn. It returns fn's error, or else that of a limit that fn exceeded.
func (t *tx) run(fn func(store.Tx) error) error {
	if err := fn(t); err != nil {
		return err
	}
	if n := len(t.wrote); n > limits.MaxUpdateKeys {
		t.exceeds("keys", n, limits.MaxUpdateKeys)
	}
	return t.err
}

// fill adds the writes of fn to the transaction, and locks the keys that it only read: every
// key that the Update depends on is written or locked, so of two Updates that share a key the
// later must retry.
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

// Stamp returns the stamp of the commit.
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
