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

// Many items at once go into a table that nobody uses yet. Each is a Write and
// passes through apply like any other; what is saved is one update, and so one
// wait for the disk, for some hundred of them, and the look at what was there
// before where nothing can be.

const (
	bulkItems   = 1000    // writes of one update, at most
	bulkBytes   = 1 << 20 // bytes of one update, about
	bulkWriters = 2       // updates under way at once
)

// loadItems puts items into a table in which none of them exists. done is told of
// every update how many there were.
func (d *DB) loadItems(ctx context.Context, t *table, items iter.Seq2[item.Item, error], done func(items int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	full := make(chan *batch)
	var writers sync.WaitGroup
	for range bulkWriters {
		writers.Go(func() {
			for b := range full {
				if err := d.putAll(ctx, t, b.writes, noneExists); err != nil {
					cancel(err)
					continue // until the reader has noticed
				}
				done(len(b.writes))
			}
		})
	}
	send := func(b *batch) error {
		select {
		case full <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := func() error {
		b := newBatch()
		for it, err := range items {
			if err != nil {
				return err
			}
			it = b.copy(it)
			b.add(Write{Table: t.Name, Key: it, Fit: hasKey, Effect: Replace(it)})
			if b.full() {
				if err := send(b); err != nil {
					return err
				}
				b = newBatch()
			}
		}
		return send(b)
	}()
	close(full)
	writers.Wait()
	// What a writer met comes before what the reader saw of it.
	return errors.Join(context.Cause(ctx), dropCancel(err))
}

// dropCancel leaves out the error that only tells that another came first.
func dropCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// hasKey lets an item pass that was in a table before: it need not fit the
// indexes that came later.
func hasKey(t *schema.Table, it item.Item) error {
	if !t.Key.In(it) {
		return apierror.KeyMismatch()
	}
	return nil
}

// batch is the writes of one update, with memory of their own.
type batch struct {
	writes []Write
	bytes  []byte
	size   int
}

func newBatch() *batch { return &batch{writes: make([]Write, 0, bulkItems)} }

// copy keeps an item as long as the batch.
func (b *batch) copy(it item.Item) item.Item {
	if it == nil {
		return nil
	}
	if len(b.bytes)+len(it) > cap(b.bytes) {
		b.bytes = make([]byte, 0, max(bulkBytes/8, len(it))) // the old one lives on in what was copied
	}
	b.size += len(it)
	from := len(b.bytes)
	b.bytes = append(b.bytes, it...)
	return item.Item(b.bytes[from:len(b.bytes):len(b.bytes)])
}

func (b *batch) add(w Write) { b.writes = append(b.writes, w) }

func (b *batch) full() bool { return len(b.writes) == bulkItems || b.size >= bulkBytes }

// Which of some writes may be of an item that exists already.
func noneExists(int) bool { return false }

// putAll makes some writes to a table that is being filled. exists tells of
// which the item may exist already; of the others it is not looked for.
func (d *DB) putAll(ctx context.Context, t *table, writes []Write, exists func(i int) bool) error {
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
		if exists(i) {
			declared = append(declared, keys[i])
			known[string(keys[i])] = true
		}
		if t.HasLocal() {
			declared = append(declared, keyspace.Collection(t.Table, writes[i].Key))
		}
	}
	now := d.now()
	outcomes := make([]Outcome, len(writes))
	room := encodings.Get().(*encoding)
	defer room.release()
	err := d.engine.Update(ctx, declared, func(tx store.Tx) error {
		room.row = room.row[:0] // fn may run again
		tx = newEmptyTableTx(tx, t.ID, known)
		for i := range writes {
			var err error
			if outcomes[i], err = d.apply(tx, t.Table, &writes[i], position{keys[i], i, now}, room); err != nil {
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

// emptyTableTx is an update of a table that has none of the items it writes but those
// that are known, so that the others need not be declared.
type emptyTableTx struct {
	store.Tx
	items []byte // what the keys of items begin with
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
