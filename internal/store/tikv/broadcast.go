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
func (e *Engine) Subscribe(handle func(context.Context, []byte) error) {
	e.membership.mu.Lock()
	e.membership.handle = handle
	e.membership.mu.Unlock()
	close(e.membership.subscribed)
}

// broadcastTimeout is how long Broadcast waits for the other processes. One that does not
// answer is removed before that.
const broadcastTimeout = time.Minute

// Broadcast appends a message and waits until every process has handled it. It waits for a
// process that does not answer until the lease of that process has certainly expired and its
// record is removed.
func (e *Engine) Broadcast(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	ctx, cancel := context.WithTimeoutCause(ctx, broadcastTimeout, fmt.Errorf("not all servers have handled a change after %v: %w", broadcastTimeout, store.ErrUnavailable))
	defer cancel()
	var n uint64
	err := e.transact(ctx, func(txn *transaction.KVTxn) error {
		values, err := e.readOwn(ctx, txn.StartTS(), nameLastSent)
		if err != nil {
			return err
		}
		n = decodeNumber(values[0]) + 1
		if err := txn.Set(e.own(nameLastSent), number(n)); err != nil {
			return err
		}
		return txn.Set(e.messageKey(n), append([]byte{1}, message...))
	})
	if err != nil {
		return err
	}
	e.membership.mu.Lock()
	e.membership.lastSent = max(e.membership.lastSent, n)
	e.membership.mu.Unlock()
	wake(e.membership.wakeDelivery)
	return e.membership.waitDelivered(ctx, n)
}

// waitDelivered waits until all processes have handled a message.
func (m *membership) waitDelivered(ctx context.Context, n uint64) error {
	for {
		ts, err := m.e.now(ctx)
		if err != nil {
			return err
		}
		members, err := m.e.members(ctx, ts)
		if err != nil {
			return err
		}
		m.mu.Lock()
		all := m.lastSeen >= n
		for id, r := range members {
			all = all && (id == m.id || r.LastSeen >= n)
		}
		m.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(5*time.Millisecond, m.e.o.Beat)):
		}
	}
}

// deliver calls the handler with the messages in order, until the context ends.
func (m *membership) deliver(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-m.subscribed:
	}
	for {
		m.mu.Lock()
		next, more := m.lastSeen+1, m.lastSeen < m.lastSent
		m.mu.Unlock()
		if !more {
			select {
			case <-ctx.Done():
				return
			case <-m.wakeDelivery:
			}
			continue
		}
		if err := m.deliverOne(ctx, next); err != nil {
			if ctx.Err() != nil {
				return
			}
			m.e.log.Warn("a message of another server could not be handled: retrying", "error", err)
			if sleepRandom(ctx, 10*m.e.o.Beat) != nil {
				return
			}
		}
	}
}

func (m *membership) deliverOne(ctx context.Context, n uint64) error {
	key := append(append([]byte{store.Reserved}, nameMessage...), number(n)...)
	values, err := m.e.readAt(ctx, latest, [][]byte{key})
	if err != nil {
		return err
	}
	// A message that was deleted had been handled by all; this process joined later.
	if len(values[0]) > 0 {
		if err := m.handle(ctx, values[0][1:]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.lastSeen = max(m.lastSeen, n)
	m.mu.Unlock()
	wake(m.wakeHeartbeat) // so that the senders need not wait for the next heartbeat
	return nil
}

// deleteMessages deletes the messages that all processes have handled.
func (m *membership) deleteMessages(ctx context.Context) error {
	ts, err := m.e.now(ctx)
	if err != nil {
		return err
	}
	members, err := m.e.members(ctx, ts)
	if err != nil {
		return err
	}
	m.mu.Lock()
	lastSeen := m.lastSeen
	m.mu.Unlock()
	for _, r := range members {
		lastSeen = min(lastSeen, r.LastSeen)
	}
	at, err := m.e.at(ts).Iter(m.e.messageKey(0), m.e.messageKey(lastSeen+1))
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
	return m.e.transact(ctx, func(txn *transaction.KVTxn) error {
		for _, k := range old {
			if err := txn.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}
