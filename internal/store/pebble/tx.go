package pebble

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/valuecache"
)

// tx is one run of an Update's fn.
type tx struct {
	stamp    store.Stamp
	batch    *pebble.Batch
	declared []declaredKey
	order    []int            // the order of declared by key; empty if there are few
	cached   valuecache.Write // what the batch writes, for the value cache
	err      error            // the first limit exceeded
}

type declaredKey struct {
	key, value []byte // the value is nil if absent
	existed    bool   // before fn ran
}

const fewKeys = 8

var txs = sync.Pool{New: func() any { return new(tx) }}

// release returns the tx to the pool, unless it is large.
func (t *tx) release() {
	if cap(t.declared) > 16*fewKeys {
		return
	}
	clear(t.declared)
	*t = tx{declared: t.declared[:0], order: t.order[:0], cached: t.cached}
	txs.Put(t)
}

// load reads the declared keys.
func (t *tx) load(e *Engine, keys [][]byte) error {
	for _, k := range keys {
		v, err := e.read(k)
		if err != nil {
			return err
		}
		t.declared = append(t.declared, declaredKey{key: k, value: v, existed: v != nil})
	}
	if len(keys) > fewKeys {
		for i := range keys {
			t.order = append(t.order, i)
		}
		slices.SortFunc(t.order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
	}
	return nil
}

// run runs fn. It returns fn's error, or else that of a limit that fn exceeded.
func (t *tx) run(fn func(store.Tx) error) error {
	if err := fn(t); err != nil {
		return err
	}
	if n := int(t.batch.Count()); n > limits.MaxUpdateKeys {
		t.exceeds("keys", n, limits.MaxUpdateKeys)
	}
	return t.err
}

// Get reads a declared key.
func (t *tx) Get(key []byte) (value []byte, ok bool) {
	e := t.find(key)
	if e == nil {
		panic(fmt.Sprintf("store: Get of key %x, which the Update did not declare", key))
	}
	return e.value, e.value != nil
}

// Set writes a key.
func (t *tx) Set(key, value []byte) {
	if len(value) == 0 {
		panic(fmt.Sprintf("store: Set of key %x to an empty value", key))
	}
	if !t.fits(key, value) {
		return
	}
	t.write(t.batch.Set(key, value, nil), key, value)
}

// Delete removes a key.
func (t *tx) Delete(key []byte) {
	if !t.fits(key, nil) {
		return
	}
	t.write(t.batch.Delete(key, nil), key, nil)
}

// Stamp returns the stamp of the commit.
func (t *tx) Stamp() store.Stamp { return t.stamp }

// write records what was added to the batch, for Get.
func (t *tx) write(err error, key, value []byte) {
	if err != nil {
		panic(fmt.Sprintf("store: the batch rejects key %x: %v", key, err))
	}
	if e := t.find(key); e != nil {
		e.value = value
	}
}

// find returns the declared key; nil if key is not declared.
func (t *tx) find(key []byte) *declaredKey {
	if len(t.order) > 0 {
		at, ok := slices.BinarySearchFunc(t.order, key, func(i int, key []byte) int { return bytes.Compare(t.declared[i].key, key) })
		if !ok {
			return nil
		}
		return &t.declared[t.order[at]]
	}
	for i := range t.declared {
		if bytes.Equal(t.declared[i].key, key) {
			return &t.declared[i]
		}
	}
	return nil
}

// cacheWrite declares to the value cache that the batch writes key. Only declared keys are
// cached: the others, such as index entries, are rarely read by key.
func (t *tx) cacheWrite(key []byte) {
	if e := t.find(key); e != nil && e.value != nil {
		t.cached.Replace(key, e.value, e.existed)
	} else {
		t.cached.Invalidate(key)
	}
}

func (t *tx) fits(key, value []byte) bool {
	store.CheckKeys(key)
	switch size := t.batch.Len() + len(key) + len(value); {
	case t.err != nil:
	case len(key) > limits.MaxKeyBytes:
		t.exceeds("bytes of key", len(key), limits.MaxKeyBytes)
	case len(value) > limits.MaxValueBytes:
		t.exceeds("bytes of value", len(value), limits.MaxValueBytes)
	case size > limits.MaxUpdateBytes:
		t.exceeds("bytes", size, limits.MaxUpdateBytes)
	}
	return t.err == nil
}

func (t *tx) exceeds(what string, have, most int) {
	t.err = fmt.Errorf("%d %s, at most %d: %w", have, what, most, store.ErrTooLarge)
}
