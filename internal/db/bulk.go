package db

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Restores and imports write many items to a table that is not in use yet. Each
// item is a Write that passes through apply. It is faster than DB.Write because
// one update, and so one sync of the WAL, has hundreds of writes, and because
// items that cannot exist are not read before they are written.

const (
	bulkItems   = 1000    // maximum number of writes of one update
	bulkBytes   = 1 << 20 // approximate size of one update
	bulkWriters = 2       // concurrent updates
)

// loadItems writes items to a table in which none of them exists. done is
// called after each update with the number of its items.
func (d *DB) loadItems(ctx context.Context, t *table, items iter.Seq2[item.Item, error], done func(items int)) error {
	w := d.startWriters(ctx, t, 1, done)
	b := newBatch()
	for it, err := range items {
		if err != nil {
			return w.finish(err)
		}
		it = b.copy(it)
		b.add(Write{Table: t.Name, Key: it, Fit: hasKey, Effect: Replace(it)})
		if b.full() {
			if err := w.send(0, b); err != nil {
				return w.finish(err)
			}
			b = newBatch()
		}
	}
	return w.finish(w.send(0, b))
}

// batchWriters is a pool of goroutines that write batches to a table that is
// being filled. They take the batches from one or more queues.
type batchWriters struct {
	ctx     context.Context // ends with the first error of a writer
	cancel  context.CancelCauseFunc
	queues  []chan *batch
	running sync.WaitGroup
}

// startWriters starts bulkWriters goroutines on one queue for all of them, or on
// one for each. done is called after each update with the number of its items.
// The caller must call finish.
func (d *DB) startWriters(ctx context.Context, t *table, queues int, done func(items int)) *batchWriters {
	w := &batchWriters{queues: make([]chan *batch, queues)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	for i := range w.queues {
		w.queues[i] = make(chan *batch)
	}
	for i := range bulkWriters {
		w.running.Go(func() {
			for b := range w.queues[i%queues] {
				if err := d.writeBatch(w.ctx, t, b); err != nil {
					w.cancel(err)
					return
				}
				done(len(b.writes))
			}
		})
	}
	return w
}

// send queues a batch. It returns the error of a writer that has failed.
func (w *batchWriters) send(queue int, b *batch) error {
	select {
	case w.queues[queue] <- b:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// finish waits until the batches that were sent are written. err is the error
// of the sender, or nil. The result is the error of the first writer that
// failed, joined with err if that is another one.
func (w *batchWriters) finish(err error) error {
	for _, q := range w.queues {
		close(q)
	}
	w.running.Wait()
	cause := context.Cause(w.ctx)
	w.cancel(nil)
	switch {
	case cause == nil:
		return err
	case errors.Is(err, cause) || errors.Is(err, context.Canceled):
		return cause
	}
	return errors.Join(cause, err)
}

// hasKey is the Fit of a restored item. It checks the key only: the item may not
// fit indexes that were added after it was written.
func hasKey(t *schema.Table, it item.Item) error {
	if !t.Key.In(it) {
		return apierror.KeyMismatch()
	}
	return nil
}

// batch is the writes of one update, with copies of their items.
type batch struct {
	writes []Write
	bytes  []byte
	size   int

	// mayExist marks, by write, the items that may exist already. If it
	// is nil, none of them does.
	mayExist []bool
}

func newBatch() *batch { return &batch{writes: make([]Write, 0, bulkItems)} }

// copy copies an item into memory of the batch.
func (b *batch) copy(it item.Item) item.Item {
	if it == nil {
		return nil
	}
	if len(b.bytes)+len(it) > cap(b.bytes) {
		b.bytes = make([]byte, 0, max(bulkBytes/8, len(it))) // earlier copies refer to the old buffer
	}
	b.size += len(it)
	from := len(b.bytes)
	b.bytes = append(b.bytes, it...)
	return item.Item(b.bytes[from:len(b.bytes):len(b.bytes)])
}

func (b *batch) add(w Write) { b.writes = append(b.writes, w) }

func (b *batch) full() bool { return len(b.writes) == bulkItems || b.size >= bulkBytes }

// writeBatch writes a batch to a table that is being filled. No server has read it, so that it
// is not announced to their caches. It looks only for
// the items that may exist already.
func (d *DB) writeBatch(ctx context.Context, t *table, b *batch) error {
	writes := b.writes
	if len(writes) == 0 {
		return ctx.Err()
	}
	keys, declared := make([][]byte, len(writes)), make([][]byte, 0, len(writes))
	known := make(map[string]bool)
	for i := range writes {
		if err := writes[i].fits(t.Table); err != nil {
			return err
		}
		keys[i] = keyspace.Item(nil, t.Table, writes[i].Key)
		if b.mayExist != nil && b.mayExist[i] {
			declared = append(declared, keys[i])
			known[string(keys[i])] = true
		}
		if t.HasLocal() {
			declared = append(declared, keyspace.Collection(t.Table, writes[i].Key))
		}
	}
	now := d.moment()
	outcomes := make([]Outcome, len(writes))
	buf := encodeBuffers.Get().(*encodeBuffer)
	defer buf.release()
	if d.writing != nil {
		defer d.writing(keys)()
	}
	err := d.update(ctx, declared, func(tx store.Tx) error {
		buf.reset() // fn may run again
		tx = newEmptyTableTx(tx, t.ID, known)
		for i := range writes {
			var err error
			if outcomes[i], err = d.apply(tx, t.Table, &writes[i], position{key: keys[i], n: i, now: now}, buf); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range outcomes {
		t.counts.countWrite(&outcomes[i])
	}
	return nil
}

// emptyTableTx is an update of a table in which only the known items may exist.
// Other items read as absent, so that their keys need not be declared.
type emptyTableTx struct {
	store.Tx
	items []byte // the prefix of all item keys
	known map[string]bool
}

func newEmptyTableTx(tx store.Tx, table uint32, known map[string]bool) emptyTableTx {
	items, _ := keyspace.IndexSpan(table, 0)
	return emptyTableTx{tx, items, known}
}

func (b emptyTableTx) Get(key []byte) (value []byte, ok bool) {
	if bytes.HasPrefix(key, b.items) && !b.known[string(key)] {
		return nil, false
	}
	return b.Tx.Get(key)
}
