package tikv

import (
	"bytes"
	"context"
	"errors"

	"github.com/stator-db/stator/internal/store"
)

// deleteBatch is how many keys DeleteRange removes in one transaction.
const deleteBatch = 1000

// DeleteRange deletes the keys of [start, end) with ordinary transactions, which snapshots and
// other writers respect. TiKV's own range delete removes what open snapshots still show.
func (e *Engine) DeleteRange(ctx context.Context, start, end []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if start, more, err = e.deleteSome(ctx, start, end); err != nil {
			return err
		}
	}
	return nil
}

// deleteSome deletes the first keys of a range and returns where to continue.
func (e *Engine) deleteSome(ctx context.Context, start, end []byte) (next []byte, more bool, err error) {
	s, err := e.Snapshot(ctx)
	if err != nil {
		return nil, false, err
	}
	defer s.Close()
	var keys [][]byte
	for pair, err := range s.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, false, err
		}
		if keys = append(keys, bytes.Clone(pair.Key)); len(keys) == deleteBatch {
			break
		}
	}
	if len(keys) == 0 {
		return nil, false, nil
	}
	err = e.Update(ctx, nil, func(tx store.Tx) error {
		for _, k := range keys {
			tx.Delete(k)
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrUnknownOutcome) { // then they are read again
		return nil, false, err
	}
	if err == nil {
		start = append(keys[len(keys)-1], 0)
	}
	return start, true, nil
}
