package db

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// A table that is made of files stands in the catalog from the first, CREATING,
// with the id of its import. Who reads the files fills it, and then settles it
// or takes it out again. Until then nobody else can use it.

// BeginImport makes a table that an import is going to fill.
func (d *DB) BeginImport(ctx context.Context, def schema.Table, id string) (Description, error) {
	def.Restored = schema.Restored{Import: id, Running: true}
	return d.CreateTable(ctx, def)
}

// importing is the table that an import fills.
func (d *DB) importing(name, id string) (*table, error) {
	t, ok := d.find(name)
	if !ok || t.Restored.Import != id {
		return nil, apierror.NoTableNamed(name)
	}
	if !t.Restored.Running {
		return nil, fmt.Errorf("table %s is complete: nothing can be imported into it", name)
	}
	return t, nil
}

// Import puts items into a table that BeginImport made, from the start. Of two
// with one key the later counts. refuse is told of each item that does not fit,
// before the next is taken; done of how many are in.
func (d *DB) Import(ctx context.Context, name, id string, items iter.Seq2[item.Item, error], refuse func(error), done func(items int)) error {
	t, err := d.importing(name, id)
	if err != nil {
		return err
	}
	if err := d.clear(ctx, t); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Each writer has the keys of its own, so that of two items with one key
	// the later is written later.
	queues := make([]*writerQueue, bulkWriters)
	var writers sync.WaitGroup
	for i := range queues {
		l := newWriterQueue()
		queues[i] = l
		writers.Go(func() {
			for b := range l.full {
				if err := d.putAll(ctx, t, b.writes, b.exists); err != nil {
					cancel(err)
					continue // until the reader has noticed
				}
				done(len(b.writes))
			}
		})
	}
	err = distribute(ctx, t.Table, queues, items, refuse)
	for _, l := range queues {
		close(l.full)
	}
	writers.Wait()
	// What a writer met comes before what the reader saw of it.
	return errors.Join(context.Cause(ctx), dropCancel(err))
}

// writerQueue is the way of items to one writer.
type writerQueue struct {
	full chan *queuedBatch
	*queuedBatch
	at   map[string]int // where each item of the batch is
	seen *bloomFilter   // the keys of all items that went this way
}

// queuedBatch is a batch, and which of its items may have come before it.
type queuedBatch struct {
	*batch
	twice []bool
}

func (b *queuedBatch) exists(i int) bool { return b.twice[i] }

func newWriterQueue() *writerQueue {
	return &writerQueue{full: make(chan *queuedBatch), queuedBatch: &queuedBatch{batch: newBatch()}, at: make(map[string]int), seen: newBloomFilter()}
}

// filter remembers keys in memory that does not grow. It may take one for
// another, the more often the more there are; it never forgets one.
type bloomFilter struct {
	seed maphash.Seed
	bits []uint64
}

// bloomBits is how many bits it has: enough for some ten million keys.
const bloomBits = 1 << 26

func newBloomFilter() *bloomFilter {
	return &bloomFilter{maphash.MakeSeed(), make([]uint64, bloomBits/64)}
}

// add tells whether a key may have been added before, and adds it. Its four
// bits lie in one place, so that it costs one look at memory.
func (f *bloomFilter) add(key []byte) (maybe bool) {
	h := maphash.Bytes(f.seed, key)
	word := &f.bits[h%(bloomBits/64)]
	mask := uint64(1)<<(h>>40&63) | 1<<(h>>46&63) | 1<<(h>>52&63) | 1<<(h>>58&63)
	maybe = *word&mask == mask
	*word |= mask
	return maybe
}

// send hands the batch over and begins another.
func (l *writerQueue) send(ctx context.Context) error {
	select {
	case l.full <- l.queuedBatch:
		l.queuedBatch = &queuedBatch{batch: newBatch()}
		clear(l.at)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// distribute hands items that fit a table to the writers.
func distribute(ctx context.Context, t *schema.Table, queues []*writerQueue, items iter.Seq2[item.Item, error], refuse func(error)) error {
	var key []byte
	for it, err := range items {
		if err != nil {
			return err
		}
		w := Write{Table: t.Name, Fit: (*schema.Table).CheckItem}
		err := t.CheckItem(it)
		if err == nil {
			err = w.admit(t, nil, it, it.Size())
		}
		if err != nil {
			refuse(err)
			continue
		}
		key = keyspace.Item(key[:0], t, it)
		l := queues[keyspace.Lane(key, len(queues))]
		it = l.copy(it)
		w.Key, w.Effect = it, Replace(it)
		// An item is named once in an update.
		if i, twice := l.at[string(key)]; twice {
			l.writes[i] = w
		} else {
			l.at[string(key)] = len(l.writes)
			l.add(w)
			l.twice = append(l.twice, l.seen.add(key))
		}
		if l.batch.full() {
			if err := l.send(ctx); err != nil {
				return err
			}
		}
	}
	for _, l := range queues {
		if err := l.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// EndImport makes a table usable that Import has filled.
func (d *DB) EndImport(ctx context.Context, name, id string) error {
	t, err := d.importing(name, id)
	if err != nil {
		return err
	}
	return d.endFill(ctx, t)
}

// DropImport removes a table that could not be filled. It does nothing if the
// table does not exist any more.
func (d *DB) DropImport(ctx context.Context, name, id string) error {
	t, ok := d.find(name)
	if !ok || t.Restored.Import != id || !t.Restored.Running {
		return nil
	}
	return d.abandon(ctx, t)
}
