package tikv

import (
	"bytes"
	"context"
	"errors"

	"github.com/stator-db/stator/internal/store"
)

// deleteBatch is how many keys DeleteRange removes in one transaction.
const deleteBatch = 1000

// DeleteRange deletes the keys of [start, end) by ordinary transactions, which
// views and other writers notice. TiKV's own way takes away what open views
// still show.
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

// deleteSome deletes the first keys of a range and tells where to go on.
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
	if err != nil && !errors.Is(err, store.ErrUnknownOutcome) { // then they are looked at again
		return nil, false, err
	}
	if err == nil {
		start = append(keys[len(keys)-1], 0)
	}
	return start, true, nil
}

// Splits cuts a range at the borders of regions, which are about equally
// large, or where there are too few of them between keys.
func (e *Engine) Splits(ctx context.Context, start, end []byte, n int) ([][]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	if n < 2 {
		return nil, nil
	}
	borders, err := e.borders(ctx, start, end)
	if err != nil {
		return nil, err
	}
	if len(borders) < 4*n {
		if borders, err = e.sample(ctx, start, end); err != nil {
			return nil, err
		}
	}
	var cuts [][]byte
	for i := 1; i < n; i++ {
		at := i * len(borders) / n
		if at >= len(borders) {
			break
		}
		cut := borders[at]
		if bytes.Compare(cut, start) > 0 && (len(cuts) == 0 || bytes.Compare(cut, cuts[len(cuts)-1]) > 0) {
			cuts = append(cuts, cut)
		}
	}
	return cuts, nil
}

// borders are the borders of regions within a range.
func (e *Engine) borders(ctx context.Context, start, end []byte) ([][]byte, error) {
	lower, upper := e.bounds(start, end)
	if bytes.Compare(lower, upper) >= 0 {
		return nil, nil
	}
	regions, err := e.kv.GetRegionCache().LocateKeyRange(backoff(ctx), lower, upper)
	if err != nil {
		return nil, failure("find the regions of a range", err)
	}
	var found [][]byte
	for _, r := range regions {
		if bytes.Compare(r.StartKey, lower) > 0 && bytes.Compare(r.StartKey, upper) < 0 {
			found = append(found, r.StartKey[len(e.prefix):])
		}
	}
	return found, nil
}

// sampleKeys is how many keys of a range are kept to cut it at.
const sampleKeys = 4096

// sample are keys of a range at about equal distances.
func (e *Engine) sample(ctx context.Context, start, end []byte) ([][]byte, error) {
	s, err := e.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var kept [][]byte
	seen, every := 0, 1
	for pair, err := range s.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		if seen%every == 0 {
			kept = append(kept, bytes.Clone(pair.Key))
		}
		seen++
		if len(kept) == sampleKeys {
			for i := range kept[:sampleKeys/2] {
				kept[i] = kept[2*i]
			}
			kept, every = kept[:sampleKeys/2], 2*every
		}
	}
	return kept, nil
}
