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
	return e.broadcast(ctx, messageForHandler, message, func(memberRecord) bool { return true })
}

// The kinds of messages, their first byte.
const (
	messageForHandler = 1 // for the handler of Subscribe
	messageGroups     = 2 // a process attends a group
	messageLoss       = 3 // a dead process was removed
)

// broadcast appends a message and waits until the processes have handled it whose records are
// chosen.
func (e *Engine) broadcast(ctx context.Context, kind byte, message []byte, chosen func(memberRecord) bool) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	ctx, cancel := context.WithTimeoutCause(ctx, broadcastTimeout, fmt.Errorf("not all servers have handled a change after %v: %w", broadcastTimeout, store.ErrUnavailable))
	defer cancel()
	n, err := e.send(ctx, kind, message)
	if err != nil {
		return err
	}
	return e.membership.waitDelivered(ctx, n, chosen)
}

// send appends a message and returns its number.
func (e *Engine) send(ctx context.Context, kind byte, message []byte) (n uint64, err error) {
	// One at a time: all messages are numbered by one key, and would conflict there.
	select {
	case e.membership.sending <- struct{}{}:
		defer func() { <-e.membership.sending }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	err = e.transact(ctx, func(txn *transaction.KVTxn) (err error) {
		n, err = e.appendMessage(ctx, txn, kind, message)
		return err
	})
	if err != nil {
		return 0, err
	}
	e.membership.sent(n)
	return n, nil
}

// appendMessage adds a message to a transaction, and returns its number.
func (e *Engine) appendMessage(ctx context.Context, txn *transaction.KVTxn, kind byte, message []byte) (n uint64, err error) {
	values, err := e.readOwn(ctx, txn.StartTS(), nameLastSent)
	if err != nil {
		return 0, err
	}
	n = decodeNumber(values[0]) + 1
	if err := txn.Set(e.own(nameLastSent), number(n)); err != nil {
		return 0, err
	}
	return n, txn.Set(e.messageKey(n), append([]byte{kind}, message...))
}

// sent makes the messages up to a number be delivered.
func (m *membership) sent(n uint64) {
	m.mu.Lock()
	m.lastSent = max(m.lastSent, n)
	m.mu.Unlock()
	wake(m.wakeDelivery)
}

// waitDelivered waits until all chosen processes have handled a message.
func (m *membership) waitDelivered(ctx context.Context, n uint64, chosen func(memberRecord) bool) error {
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
		all := m.lastSeen >= n || !chosen(memberRecord{Groups: m.groups})
		for id, r := range members {
			all = all && (id == m.id || r.LastSeen >= n || !chosen(r))
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
		next, last, prompt := m.lastSeen+1, m.lastSent, m.prompt
		m.mu.Unlock()
		if next > last {
			var poll <-chan time.Time
			if prompt {
				poll = time.After(min(promptInterval, m.e.o.Beat))
			}
			select {
			case <-ctx.Done():
				return
			case <-m.wakeDelivery:
			case <-poll:
				m.poll(ctx)
			}
			continue
		}
		if err := m.deliverNext(ctx, next, min(last, next+deliverBatch-1)); err != nil {
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

const (
	// promptInterval is how often a process with a group that is prompt looks for messages.
	promptInterval = 5 * time.Millisecond
	// deliverBatch is how many messages are read at once.
	deliverBatch = 64
)

// poll reads the number of the last message. An error is that of a cluster that does not
// answer, which heartbeats report.
func (m *membership) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if values, err := m.e.readOwn(ctx, latest, nameLastSent); err == nil {
		m.sent(decodeNumber(values[0]))
	}
}

// deliverNext handles the messages of these numbers.
func (m *membership) deliverNext(ctx context.Context, first, last uint64) error {
	var keys [][]byte
	for n := first; n <= last; n++ {
		keys = append(keys, append(append([]byte{store.Reserved}, nameMessage...), number(n)...))
	}
	ts := uint64(latest)
	if len(keys) > 1 {
		var err error
		if ts, err = m.e.now(ctx); err != nil {
			return err
		}
	}
	values, err := m.e.readAt(ctx, ts, keys)
	if err != nil {
		return err
	}
	for i, message := range values {
		// A message that was deleted had been handled by all; this process joined later.
		if len(message) > 0 {
			if err := m.handleMessage(ctx, message[0], message[1:]); err != nil {
				return err
			}
		}
		m.mu.Lock()
		m.lastSeen = max(m.lastSeen, first+uint64(i))
		m.mu.Unlock()
		wake(m.wakeHeartbeat) // so that the senders need not wait for the next heartbeat
	}
	return nil
}

func (m *membership) handleMessage(ctx context.Context, kind byte, message []byte) error {
	switch kind {
	case messageGroups:
		return m.readGroups(ctx)
	case messageLoss:
		m.mu.Lock()
		lost := m.lost
		m.mu.Unlock()
		if lost != nil {
			lost()
		}
		return nil
	}
	return m.handle(ctx, message)
}

// deleteMessages deletes the messages that all processes have handled.
func (m *membership) deleteMessages(ctx context.Context) error {
	for {
		if n, err := m.deleteSomeMessages(ctx); n < deleteBatch || err != nil {
			return err
		}
	}
}

// deleteSomeMessages deletes up to deleteBatch messages, and returns how many.
func (m *membership) deleteSomeMessages(ctx context.Context) (n int, err error) {
	ts, err := m.e.now(ctx)
	if err != nil {
		return 0, err
	}
	members, err := m.e.members(ctx, ts)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	lastSeen, first := m.lastSeen, m.firstKept
	m.mu.Unlock()
	for _, r := range members {
		lastSeen = min(lastSeen, r.LastSeen)
	}
	at, err := m.e.at(ts).Iter(m.e.messageKey(first), m.e.messageKey(lastSeen+1))
	if err != nil {
		return 0, failure("read messages", err)
	}
	defer at.Close()
	var old [][]byte
	for at.Valid() && len(old) < deleteBatch {
		old = append(old, bytes.Clone(at.Key()))
		if err := at.Next(); err != nil {
			return 0, failure("read messages", err)
		}
	}
	err = m.e.transact(ctx, func(txn *transaction.KVTxn) error {
		for _, k := range old {
			if err := txn.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(old) > 0 {
		last := old[len(old)-1]
		m.mu.Lock()
		m.firstKept = decodeNumber(last[len(last)-8:]) + 1
		m.mu.Unlock()
	}
	return len(old), err
}
