package db

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Transact executes all of the writes, or none. If some are rejected, it returns
// a Cancelled with all reasons. token may be nil. If it was used before, Transact
// returns Replayed, or ErrTokenReused if the request was another one.
func (d *DB) Transact(ctx context.Context, token *Token, writes ...Write) ([]Outcome, error) {
	if token == nil {
		return d.commit(ctx, writes, nil)
	}
	key := keyspace.Token(token.digest())
	now := d.now()
	outcomes, err := d.commit(ctx, writes, &extra{
		keys:   [][]byte{key},
		before: func(tx store.Tx) error { return token.check(tx, key, now) },
		after: func(tx store.Tx, outcomes []Outcome) {
			tx.Set(key, token.record(now, outcomes))
			tx.Set(keyspace.TokenDue(now.Add(TokenRetention), token.digest()), []byte{formatToken})
		},
	})
	return outcomes, err
}

// GetKey identifies one item.
type GetKey struct {
	Table string
	Key   item.Item
}

// GetSnapshot reads items in one snapshot. The result is nil for each item that
// does not exist.
func (d *DB) GetSnapshot(ctx context.Context, gets ...GetKey) ([]item.Item, error) {
	keys := make([][]byte, len(gets))
	tables := make([]*schema.Table, len(gets))
	var cancelled *Cancelled
	for i, g := range gets {
		t, err := d.use(g.Table)
		if err != nil {
			return nil, err
		}
		tables[i] = t.Table
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
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	values, err := snap.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	items := make([]item.Item, len(values))
	for i := range values {
		one, err := d.decodeVisible(tables[i], values[i:i+1])
		if err != nil {
			return nil, err
		}
		items[i] = one[0]
	}
	return items, nil
}
