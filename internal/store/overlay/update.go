package overlay

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stator-db/stator/internal/store"
)

// Update runs fn under the latches of the declared keys, and makes its writes visible at
// once, as a new state.
func (e *Engine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.gate.Leave()
	store.CheckKeys(keys...)
	if len(keys) > e.base.limits.MaxUpdateKeys {
		return fmt.Errorf("%d keys declared, at most %d: %w", len(keys), e.base.limits.MaxUpdateKeys, store.ErrTooLarge)
	}
	for _, k := range keys {
		if len(k) > e.base.limits.MaxKeyBytes {
			return fmt.Errorf("key of %d bytes, at most %d: %w", len(k), e.base.limits.MaxKeyBytes, store.ErrTooLarge)
		}
	}
	var buf [8]int
	latches := e.latches()
	latched, err := latches.Lock(ctx, buf[:0], keys)
	if err != nil {
		return err
	}
	defer latches.Unlock(latched)
	stamp := e.inFlight.Begin(store.StampAt(e.now()))
	defer e.inFlight.End(stamp)
	values, err := e.state.Load().get(ctx, e.base.snapshot, keys)
	if err != nil {
		return err
	}
	t := &tx{limits: e.base.limits, stamp: stamp, keys: keys, before: values}
	if err := fn(t); err != nil {
		return err
	}
	if len(t.edits) > t.limits.MaxUpdateKeys {
		t.exceeds("keys", len(t.edits), t.limits.MaxUpdateKeys)
	}
	if t.err != nil || len(t.edits) == 0 {
		return t.err
	}
	return e.commit(ctx, t)
}

// commit makes the writes of a transaction visible.
func (e *Engine) commit(ctx context.Context, t *tx) error {
	absent, err := e.absent(ctx, t.edits)
	if err != nil {
		return err
	}
	nodes := make([]*node, len(t.edits))
	for i, w := range t.edits {
		nodes[i] = newNode(w.key, w.value)
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	s := e.state.Load()
	next := &layer{root: s.root, hidden: s.hidden, bytes: s.bytes}
	for i, n := range nodes {
		old := next.root.find(n.key)
		if old != nil {
			next.bytes -= old.bytes()
		}
		switch {
		case n.value != nil || !absent[i] && !next.hides(n.key):
			next.root = next.root.with(n)
			next.bytes += n.bytes()
		case old != nil: // the base does not show the key, so nothing has to hide it
			next.root = next.root.without(n.key)
		}
	}
	return e.replace(ctx, next)
}

// absent reports for each delete whether the base does not have its key. What is created and
// deleted in a fork, such as the messages of a queue, then takes no memory.
func (e *Engine) absent(ctx context.Context, edits []pendingWrite) ([]bool, error) {
	absent := make([]bool, len(edits))
	var keys [][]byte
	var at []int
	for i, w := range edits {
		if w.value == nil {
			keys, at = append(keys, w.key), append(at, i)
		}
	}
	if len(keys) == 0 {
		return absent, nil
	}
	values, err := e.base.snapshot.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		absent[at[i]] = v == nil
	}
	return absent, nil
}

// tx is one run of an Update's fn.
type tx struct {
	limits store.Limits
	stamp  store.Stamp
	keys   [][]byte       // declared
	before [][]byte       // their values before fn; nil if absent
	index  map[string]int // of keys, if there are many
	edits  []pendingWrite
	last   map[int]int // by declared key: its last edit
	size   int
	err    error // the first limit exceeded
}

// pendingWrite is a write; the value of a delete is nil.
type pendingWrite struct{ key, value []byte }

const fewKeys = 8

// find returns the position of a declared key; -1 if it is not declared.
func (t *tx) find(key []byte) int {
	if len(t.keys) <= fewKeys {
		for i, k := range t.keys {
			if bytes.Equal(k, key) {
				return i
			}
		}
		return -1
	}
	if t.index == nil {
		t.index = make(map[string]int, len(t.keys))
		for i, k := range t.keys {
			if _, twice := t.index[string(k)]; !twice {
				t.index[string(k)] = i
			}
		}
	}
	if i, ok := t.index[string(key)]; ok {
		return i
	}
	return -1
}

// Get reads a declared key.
func (t *tx) Get(key []byte) (value []byte, ok bool) {
	i := t.find(key)
	if i < 0 {
		panic(fmt.Sprintf("store: Get of key %x, which the Update did not declare", key))
	}
	value = t.before[i]
	if at, written := t.last[i]; written {
		value = t.edits[at].value
	}
	return value, value != nil
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
	case len(key) > t.limits.MaxKeyBytes:
		t.exceeds("bytes of key", len(key), t.limits.MaxKeyBytes)
	case len(value) > t.limits.MaxValueBytes:
		t.exceeds("bytes of value", len(value), t.limits.MaxValueBytes)
	case t.size > t.limits.MaxUpdateBytes:
		t.exceeds("bytes", t.size, t.limits.MaxUpdateBytes)
	}
	if t.err != nil {
		return
	}
	if i := t.find(key); i >= 0 {
		if t.last == nil {
			t.last = make(map[int]int)
		}
		t.last[i] = len(t.edits)
	}
	t.edits = append(t.edits, pendingWrite{key, value})
}

func (t *tx) exceeds(what string, have, most int) {
	t.err = fmt.Errorf("%d %s, at most %d: %w", have, what, most, store.ErrTooLarge)
}
