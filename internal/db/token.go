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

// Token makes a transaction idempotent: it is executed once, even if it is sent
// again.
type Token struct {
	Scope, Value string
	Request      [sha256.Size]byte // the digest of the request
}

// TokenRetention is how long the record of a token is valid.
const TokenRetention = 10 * time.Minute

// ErrTokenReused is returned when a token was used before with another request.
var ErrTokenReused = errors.New("the token was used with another request")

// Replayed is returned when the token of a transaction shows that it was executed
// before.
type Replayed struct {
	Sizes []int // by write: the item size that was charged
}

func (*Replayed) Error() string { return "the transaction was already executed" }

func (t *Token) digest() []byte {
	d := sha256.New()
	d.Write([]byte(t.Scope))
	d.Write([]byte{0})
	d.Write([]byte(t.Value))
	return d.Sum(nil)
}

// formatToken is the format number of a token record and of its due entry.
const formatToken = 1

// tokenRecord is the stored record of a token.
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
		panic(fmt.Sprintf("encode token record: %v", err))
	}
	return append([]byte{formatToken}, b...)
}

// check returns Replayed or ErrTokenReused if the token has a valid record.
func (t *Token) check(tx store.Tx, key []byte, now time.Time) error {
	stored, ok := tx.Get(key)
	if !ok {
		return nil
	}
	var r tokenRecord
	if stored[0] != formatToken || json.Unmarshal(stored[1:], &r) != nil {
		return fmt.Errorf("token record: %w", store.ErrCorrupt)
	}
	switch {
	case now.Sub(r.At) > TokenRetention:
		return nil
	case !bytes.Equal(r.Request, t.Request[:]):
		return ErrTokenReused
	}
	return &Replayed{Sizes: r.Sizes}
}

// tokenInterval is the interval at which removeTokens runs.
const tokenInterval = time.Minute

// removeTokens removes the records of tokens that are no longer valid.
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
		start = append(due[len(due)-1], 0) // do not scan the deleted entries again
	}
}

// tokenBatch is the number of tokens that one update removes. It is large because
// tokens must be removed faster than many clients create them.
const tokenBatch = 250

// tokensDue returns the keys of the next due entries.
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

// removeTokenBatch removes due entries and the records of their tokens.
func (d *DB) removeTokenBatch(ctx context.Context, due [][]byte) error {
	keys := make([][]byte, len(due))
	for i := range due {
		keys[i] = keyspace.Token(keyspace.DueToken(due[i]))
	}
	err := d.engine.Update(ctx, keys, func(tx store.Tx) error {
		for i, key := range keys {
			tx.Delete(due[i])
			// The token may have been used again, with a later due time.
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
