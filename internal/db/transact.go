package db

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Cancelled is the error of several writes of which some cannot happen.
type Cancelled struct {
	Reasons []error // by write; nil where there is none
}

func (c *Cancelled) Error() string { return fmt.Sprintf("cancelled: %v", c.first()) }

func (c *Cancelled) first() error {
	for _, err := range c.Reasons {
		if err != nil {
			return err
		}
	}
	return nil
}

// add notes that the i-th of n writes cannot happen. An error that is more
// than the reason of one write is handed back.
func (c *Cancelled) add(i, n int, err error) (*Cancelled, error) {
	var fault *apierror.Error
	var failed *ConditionFailed
	if errors.As(err, &fault) && fault.Whole || fault == nil && !errors.As(err, &failed) {
		return c, err
	}
	if c == nil {
		c = &Cancelled{Reasons: make([]error, n)}
	}
	c.Reasons[i] = err
	return c, nil
}

// conflict is the error of writes that waited too long for others of the same
// items.
func conflict(n int) error {
	c := &Cancelled{Reasons: make([]error, n)}
	for i := range c.Reasons {
		c.Reasons[i] = apierror.Conflict()
	}
	return c
}

// Token makes a transaction happen once, however often it is sent.
type Token struct {
	Scope, Value string
	Request      [sha256.Size]byte // the digest of what is asked for
}

// TokenLife is how long a token is remembered.
const TokenLife = 10 * time.Minute

// ErrTokenReused tells that a token came before with another request.
var ErrTokenReused = errors.New("the token came with another request")

// Replayed is the error of a transaction whose token shows that it has
// happened already.
type Replayed struct {
	Sizes []int // the size of each write's item, as it was charged
}

func (*Replayed) Error() string { return "the transaction has happened already" }

// Transact makes some changes, all or none, and tells every reason against
// them. token is nil for a transaction without one.
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
			tx.Set(keyspace.TokenDue(now.Add(TokenLife), token.digest()), []byte{formatToken})
		},
	})
	return outcomes, err
}

func (t *Token) digest() []byte {
	d := sha256.New()
	d.Write([]byte(t.Scope))
	d.Write([]byte{0})
	d.Write([]byte(t.Value))
	return d.Sum(nil)
}

// formatToken is the number of the format of a token's record.
const formatToken = 1

// tokenRecord is what is remembered of a token.
type tokenRecord struct {
	At      time.Time `json:"at"`
	Request []byte    `json:"request"`
	Sizes   []int     `json:"sizes"`
}

func (t *Token) record(now time.Time, outcomes []Outcome) []byte {
	r := tokenRecord{At: now, Request: t.Request[:]}
	for _, o := range outcomes {
		r.Sizes = append(r.Sizes, max(o.Before.Size(), o.After.Size()))
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a token's record cannot be written as JSON: %v", err))
	}
	return append([]byte{formatToken}, b...)
}

// check looks whether the token came before.
func (t *Token) check(tx store.Tx, key []byte, now time.Time) error {
	stored, ok := tx.Get(key)
	if !ok {
		return nil
	}
	var r tokenRecord
	if stored[0] != formatToken || json.Unmarshal(stored[1:], &r) != nil {
		return fmt.Errorf("the record of a token: %w", store.ErrCorrupt)
	}
	switch {
	case now.Sub(r.At) > TokenLife:
		return nil
	case !bytes.Equal(r.Request, t.Request[:]):
		return ErrTokenReused
	}
	return &Replayed{Sizes: r.Sizes}
}

// forgetTokens removes the records of tokens that are no longer remembered.
func (d *DB) forgetTokens(ctx context.Context) error {
	start, end := keyspace.TokensDue(d.now())
	for {
		due, err := d.tokensDue(ctx, start, end)
		if err != nil || len(due) == 0 {
			return err
		}
		if err := d.forget(ctx, due); err != nil {
			return err
		}
		start = append(due[len(due)-1], 0) // not through what is gone again
	}
}

// forgetBatch is how many tokens are forgotten in one update: they must go
// faster than many customers at once can make them.
const forgetBatch = 250

// tokensDue are the next notes of tokens that may be forgotten.
func (d *DB) tokensDue(ctx context.Context, start, end []byte) (due [][]byte, err error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		if due = append(due, bytes.Clone(pair.Key)); len(due) == forgetBatch {
			break
		}
	}
	return due, nil
}

// forget removes notes, and the tokens that they are about.
func (d *DB) forget(ctx context.Context, due [][]byte) error {
	keys := make([][]byte, len(due))
	for i := range due {
		keys[i] = keyspace.Token(keyspace.DueToken(due[i]))
	}
	err := d.engine.Update(ctx, keys, func(tx store.Tx) error {
		for i, key := range keys {
			tx.Delete(due[i])
			// The token may have come again since, and have a later due time.
			if stored, ok := tx.Get(key); ok {
				var r tokenRecord
				if json.Unmarshal(stored[1:], &r) != nil || d.now().Sub(r.At) > TokenLife {
					tx.Delete(key)
				}
			}
		}
		return nil
	})
	return err
}

// forgetInterval is how often tokens are looked through.
const forgetInterval = time.Minute

// GetKey names one item.
type GetKey struct {
	Table string
	Key   item.Item
}

// GetSnapshot reads items as they are at one moment, nil for each that does not
// exist.
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
			// Even what a write tells of the whole request is here the
			// reason of one action.
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
		one, err := d.shown(tables[i], values[i:i+1])
		if err != nil {
			return nil, err
		}
		items[i] = one[0]
	}
	return items, nil
}
