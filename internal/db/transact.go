package db

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// MaxTransactionBytes is the maximum size of all items of a transaction.
const MaxTransactionBytes = 4 << 20

// Transact executes all of the writes, or none. If some are rejected, it returns
// a Cancelled with their reasons; the writes after the first that is not valid are
// not evaluated. token may be nil. If it was used before, Transact
// returns Replayed, or ErrTokenReused if the request was another one.
func (d *DB) Transact(ctx context.Context, token *Token, writes ...Write) ([]Outcome, error) {
	if token == nil {
		return d.commit(ctx, writes, extra{maxBytes: MaxTransactionBytes, transaction: true})
	}
	key := keyspace.Token(token.digest())
	now := d.Now()
	outcomes, err := d.commit(ctx, writes, extra{
		maxBytes:    MaxTransactionBytes,
		transaction: true,
		keys:        [][]byte{key},
		before:      func(tx store.Tx) error { return token.check(tx, key, d.tokenOver) },
		after: func(tx store.Tx, outcomes []Outcome) {
			tx.Set(key, token.record(now, outcomes))
			tx.Set(tokenDue(now, token.digest()), []byte{codec.FormatToken})
		},
	})
	return outcomes, err
}

// GetKey identifies one item.
type GetKey struct {
	Table string
	Key   item.Item
}

// GetSnapshot reads items in one snapshot, in order, until their sizes exceed
// maxBytes in total: the item that does is the last of the result. The result is
// nil for each item that does not exist. check, which may be nil, is called if all keys
// are valid, and may return a fault of the request.
func (d *DB) GetSnapshot(ctx context.Context, maxBytes int, check func() error, gets ...GetKey) ([]item.Item, error) {
	keys := make([][]byte, len(gets))
	tables := make([]*table, len(gets))
	var cancelled *Cancelled
	for i, g := range gets {
		t, err := d.use(g.Table)
		if err != nil {
			return nil, err
		}
		tables[i] = t
		if err := t.CheckKey(g.Key); err != nil {
			// A fault that a write reports for the whole transaction is the
			// reason of one action here.
			var fault *apierror.Error
			if !errors.As(err, &fault) {
				return nil, err
			}
			reason := *fault
			reason.Whole = false
			cancelled, _ = cancelled.add(i, len(gets), &reason)
			continue
		}
		keys[i] = keyspace.Item(nil, t.Table, g.Key)
	}
	if cancelled != nil {
		return nil, cancelled
	}
	if check != nil {
		if err := check(); err != nil {
			return nil, err
		}
	}
	bill := billOf(ctx)
	for i, t := range tables {
		if err := d.admitRead(bill, t, access{stored: keys[i], item: gets[i].Key}); err != nil {
			cancelled, _ = cancelled.add(i, len(gets), err)
		}
	}
	if cancelled != nil {
		return nil, cancelled
	}
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	read := func(keys [][]byte) ([][]byte, error) { return snap.Get(ctx, keys...) }
	memory := buffer.TallyOf(ctx, len(keys), maxBytes+item.MaxSize)
	items, _, err := d.readWithin(ctx, read, maxBytes, keys, func(i int) *schema.Table { return tables[i].Table }, nil, &memory)
	for i, it := range items {
		d.consumeRead(bill, tables[i], access{stored: keys[i], item: gets[i].Key}, 2*readUnits(it, true))
	}
	return items, err
}
