package db

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// Token makes a transaction idempotent: it is executed once, even if it is sent
// again.
type Token struct {
	Scope, Value string
	Request      [sha256.Size]byte // the digest of the request
}

// TokenRetention is how long the record of a token is valid.
const TokenRetention = codec.TokenRetention

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

// tokenDue returns the key of the entry that says when the record of a token that was
// recorded at a time expires.
func tokenDue(recordedAt time.Time, digest []byte) []byte {
	return keyspace.TokenDue(recordedAt.Add(TokenRetention), digest)
}

func (t *Token) record(now time.Time, outcomes []Outcome) []byte {
	r := codec.Token{At: now, Request: t.Request[:]}
	for _, o := range outcomes {
		r.Sizes = append(r.Sizes, max(o.Before.Size(), o.After.Size()))
	}
	return codec.EncodeToken(r)
}

// check returns Replayed or ErrTokenReused if the token has a valid record. over
// reports whether a record is no longer valid.
func (t *Token) check(tx store.Tx, key []byte, over func(recordedAt time.Time) bool) error {
	stored, ok := tx.Get(key)
	if !ok {
		return nil
	}
	r, err := codec.DecodeToken(stored)
	if err != nil {
		return err
	}
	switch {
	case over(r.At):
		return nil
	case !bytes.Equal(r.Request, t.Request[:]):
		return ErrTokenReused
	}
	return &Replayed{Sizes: r.Sizes}
}

// tokenOver reports whether the record of a token is no longer valid. A step of the
// clock does not end it early, and while the clock is not trusted nothing does.
func (d *DB) tokenOver(recordedAt time.Time) bool {
	return d.clock.Since(recordedAt) > TokenRetention && d.clock.Trusted()
}

// tokenInterval is the interval at which removeTokens runs.
const tokenInterval = time.Minute

// tokenLoop is a loop that removes the records of tokens.
func (d *DB) tokenLoop() lead.Loop {
	l := quiet(lead.Every(tokenInterval, d.removeTokens, d.warn("old transaction tokens could not be removed")))
	l.Due = func(ctx context.Context) (at time.Time, ok bool, err error) {
		first, _ := keyspace.TokensDue(d.Now())
		_, last := keyspace.TokensDueAfter(d.Now())
		due, err := d.tokensDue(ctx, first, last)
		return d.Now(), len(due) > 0, err
	}
	return l
}

// removeTokens removes the records of tokens that are no longer valid. A damaged
// record does not keep it from removing the others.
func (d *DB) removeTokens(ctx context.Context) error {
	if !d.clock.Trusted() {
		return nil
	}
	start, end := keyspace.TokensDue(d.Now())
	err := d.removeTokensDue(ctx, start, end)
	// A token that is due later than one that is recorded now is from before the
	// clock went back.
	start, end = keyspace.TokensDueAfter(d.Now().Add(2 * TokenRetention))
	return errors.Join(err, d.removeTokensDue(ctx, start, end))
}

// removeTokensDue removes the records of the tokens of due entries.
func (d *DB) removeTokensDue(ctx context.Context, start, end []byte) error {
	var damaged error
	for {
		due, err := d.tokensDue(ctx, start, end)
		if err != nil || len(due) == 0 {
			return errors.Join(damaged, err)
		}
		switch err := d.removeTokenBatch(ctx, due); {
		case errors.Is(err, store.ErrCorrupt):
			damaged = err
		case err != nil:
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

// removeTokenBatch removes due entries and the records of their tokens, except those
// of tokens that are still valid because the clock went back. It keeps a record that
// it cannot decode, with its due entry, and returns the error: the record is evidence
// of damage, and without it the transaction could be executed again.
func (d *DB) removeTokenBatch(ctx context.Context, due [][]byte) error {
	keys := make([][]byte, len(due))
	for i := range due {
		keys[i] = keyspace.Token(keyspace.DueToken(due[i]))
	}
	var damaged error
	err := d.update(store.Freeing(ctx), keys, func(tx store.Tx) error {
		damaged = nil // fn may run again
		for i, key := range keys {
			stored, ok := tx.Get(key)
			if !ok {
				tx.Delete(due[i])
				continue
			}
			r, err := codec.DecodeToken(stored)
			if err != nil {
				damaged = fmt.Errorf("record at %x: %w", key, err)
				continue
			}
			// The token may have been used again, and have another due entry.
			if d.tokenOver(r.At) {
				tx.Delete(key)
			} else if bytes.Equal(due[i], tokenDue(r.At, keyspace.DueToken(due[i]))) {
				continue
			}
			tx.Delete(due[i])
		}
		return nil
	})
	return errors.Join(err, damaged)
}
