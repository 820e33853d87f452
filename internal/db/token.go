package db

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Token makes a transaction happen once, however often it is sent.
type Token struct {
	Scope, Value string
	Request      [sha256.Size]byte // the digest of what is asked for
}

// TokenRetention is how long a token is remembered.
const TokenRetention = 10 * time.Minute

// ErrTokenReused tells that a token came before with another request.
var ErrTokenReused = errors.New("the token came with another request")

// Replayed is the error of a transaction whose token shows that it has
// happened already.
type Replayed struct {
	Sizes []int // the size of each write's item, as it was charged
}

func (*Replayed) Error() string { return "the transaction has happened already" }

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
	case now.Sub(r.At) > TokenRetention:
		return nil
	case !bytes.Equal(r.Request, t.Request[:]):
		return ErrTokenReused
	}
	return &Replayed{Sizes: r.Sizes}
}

// tokenInterval is how often tokens are looked through.
const tokenInterval = time.Minute

// removeTokens removes the records of tokens that are no longer remembered.
func (d *DB) removeTokens(ctx context.Context) error {
	start, end := keyspace.TokensDue(d.now())
	for {
		due, err := d.tokensDue(ctx, start, end)
		if err != nil || len(due) == 0 {
			return err
		}
		if err := d.removeTokenBatch(ctx, due); err != nil {
			return err
		}
		start = append(due[len(due)-1], 0) // not through what is gone again
	}
}

// tokenBatch is how many tokens are forgotten in one update: they must go
// faster than many customers at once can make them.
const tokenBatch = 250

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
		if due = append(due, bytes.Clone(pair.Key)); len(due) == tokenBatch {
			break
		}
	}
	return due, nil
}

// forget removes notes, and the tokens that they are about.
func (d *DB) removeTokenBatch(ctx context.Context, due [][]byte) error {
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
				if json.Unmarshal(stored[1:], &r) != nil || d.now().Sub(r.At) > TokenRetention {
					tx.Delete(key)
				}
			}
		}
		return nil
	})
	return err
}
