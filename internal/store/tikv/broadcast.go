package tikv

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/stator-db/stator/internal/store"
)

// Subscribe sets the handler of messages.
func (e *Engine) Subscribe(hear func(context.Context, []byte) error) {
	e.fleet.mu.Lock()
	e.fleet.hear = hear
	e.fleet.mu.Unlock()
	close(e.fleet.hearing)
}

// tellPatience is how long Tell waits for others. Who does not answer is given
// up before.
const tellPatience = time.Minute

// Broadcast appends a message and waits until every process of the fleet has handled
// it. One that does not answer is waited for until its lease is over for
// certain, and its record removed.
func (e *Engine) Broadcast(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	ctx, cancel := context.WithTimeoutCause(ctx, tellPatience, fmt.Errorf("not all servers have heard a change after %v: %w", tellPatience, store.ErrUnavailable))
	defer cancel()
	var n uint64
	err := e.transact(ctx, func(txn *transaction.KVTxn) error {
		values, err := e.readOwn(ctx, txn.StartTS(), nameSaid)
		if err != nil {
			return err
		}
		n = decodeNumber(values[0]) + 1
		if err := txn.Set(e.own(nameSaid), number(n)); err != nil {
			return err
		}
		return txn.Set(e.messageKey(n), append([]byte{1}, message...))
	})
	if err != nil {
		return err
	}
	e.fleet.mu.Lock()
	e.fleet.said = max(e.fleet.said, n)
	e.fleet.mu.Unlock()
	wake(e.fleet.wakeHear)
	return e.fleet.heardByAll(ctx, n)
}

// heardByAll waits until all have heard a message.
func (f *fleet) heardByAll(ctx context.Context, n uint64) error {
	for {
		ts, err := f.e.now(ctx)
		if err != nil {
			return err
		}
		members, err := f.e.members(ctx, ts)
		if err != nil {
			return err
		}
		f.mu.Lock()
		all := f.heard >= n
		for id, r := range members {
			all = all && (id == f.id || r.Heard >= n)
		}
		f.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(5*time.Millisecond, f.e.o.Beat)):
		}
	}
}

// listen hears messages in their order until the context ends.
func (f *fleet) listen(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.hearing:
	}
	for {
		f.mu.Lock()
		next, some := f.heard+1, f.heard < f.said
		f.mu.Unlock()
		if !some {
			select {
			case <-ctx.Done():
				return
			case <-f.wakeHear:
			}
			continue
		}
		if err := f.hearOne(ctx, next); err != nil {
			if ctx.Err() != nil {
				return
			}
			f.e.log.Warn("a change that another server made could not be followed; trying again", "error", err)
			if pause(ctx, 10*f.e.o.Beat) != nil {
				return
			}
		}
	}
}

func (f *fleet) hearOne(ctx context.Context, n uint64) error {
	key := append(append([]byte{store.Reserved}, nameMessage...), number(n)...)
	values, err := f.e.readAt(ctx, latest, [][]byte{key})
	if err != nil {
		return err
	}
	// A message that is gone was heard by all; this process has joined since.
	if len(values[0]) > 0 {
		if err := f.hear(ctx, values[0][1:]); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.heard = max(f.heard, n)
	f.mu.Unlock()
	wake(f.wakeBeat) // so that the others need not wait for it
	return nil
}

// forget removes the messages that all have heard.
func (f *fleet) forget(ctx context.Context) error {
	ts, err := f.e.now(ctx)
	if err != nil {
		return err
	}
	members, err := f.e.members(ctx, ts)
	if err != nil {
		return err
	}
	f.mu.Lock()
	heard := f.heard
	f.mu.Unlock()
	for _, r := range members {
		heard = min(heard, r.Heard)
	}
	at, err := f.e.at(ts).Iter(f.e.messageKey(0), f.e.messageKey(heard+1))
	if err != nil {
		return failure("read messages", err)
	}
	defer at.Close()
	var old [][]byte
	for at.Valid() && len(old) < deleteBatch {
		old = append(old, bytes.Clone(at.Key()))
		if err := at.Next(); err != nil {
			return failure("read messages", err)
		}
	}
	return f.e.transact(ctx, func(txn *transaction.KVTxn) error {
		for _, k := range old {
			if err := txn.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}
