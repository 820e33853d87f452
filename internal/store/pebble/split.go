package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// splitByReadingBytes is up to which size a range is split by reading it.
const splitByReadingBytes = 1 << 20

// splits returns at most n-1 keys inside (start, end), ascending, which cut that
// range into parts of about equal bytes. They need not be stored keys. There are
// fewer if the range is small. A small range is cut exactly, a large one by Pebble's
// estimate of the bytes between two keys.
func (e *Engine) splits(ctx context.Context, start, end []byte, n int) ([][]byte, error) {
	if n < 2 {
		return nil, nil
	}
	lower, upper := bounds(start, end)
	if string(lower) >= string(upper) {
		return nil, nil
	}
	it, err := e.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, failure("split", err)
	}
	defer func() { _ = it.Close() }() // its error is that of it.Error
	small, whole := sample(ctx, it)
	if err := it.Error(); err != nil {
		return nil, failure("split", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if whole {
		return small.cut(lower, n), nil
	}
	return e.splitByEstimate(ctx, it, n)
}

// samples holds the keys of a small range, each with the number of bytes before it.
type samples struct {
	keys   [][]byte
	before []int
	total  int
}

// sample reads a range to its end, or until it is not small.
func sample(ctx context.Context, it *pebble.Iterator) (s samples, whole bool) {
	for ok := it.First(); ok; ok = it.Next() {
		if s.total > splitByReadingBytes || ctx.Err() != nil {
			return s, false
		}
		s.keys = append(s.keys, bytes.Clone(it.Key()))
		s.before = append(s.before, s.total)
		v := it.LazyValue()
		s.total += len(it.Key()) + v.Len()
	}
	return s, true
}

// cut returns the first key after each nth of the bytes.
func (s samples) cut(start []byte, n int) [][]byte {
	var splits [][]byte
	for i, k := range s.keys {
		wanted := len(splits) + 1
		if s.before[i]*n >= s.total*wanted && wanted < n && !bytes.Equal(k, start) {
			splits = append(splits, k)
		}
	}
	return splits
}

// splitByEstimate searches the span between the first and the last key of the range for
// keys with an nth of the bytes between them.
func (e *Engine) splitByEstimate(ctx context.Context, it *pebble.Iterator, n int) ([][]byte, error) {
	// The estimate is of files, so the memtables are flushed to one.
	if err := e.db.Flush(); err != nil {
		return nil, failure("split", err)
	}
	if !it.Last() {
		return nil, it.Error()
	}
	last := bytes.Clone(it.Key())
	if !it.First() {
		return nil, it.Error()
	}
	first := bytes.Clone(it.Key())
	total, err := e.db.EstimateDiskUsage(first, last)
	if err != nil {
		return nil, failure("split", err)
	}

	span := newKeySpan(first, last)
	var splits [][]byte
	from := span.from
	for part := 1; part < n; part++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// An error of an eighth of a part is small enough.
		wanted, slack := total/uint64(n)*uint64(part), total/uint64(n)/8
		point, err := span.search(from, wanted, slack, func(key []byte) (uint64, error) {
			if bytes.Compare(key, first) <= 0 {
				return 0, nil // key is cut to eight bytes after the common prefix, first is not
			}
			return e.db.EstimateDiskUsage(first, key)
		})
		if err != nil {
			return nil, failure("split", err)
		}
		if point > from && point < span.to {
			splits = append(splits, span.key(point))
			from = point
		}
	}
	return splits, nil
}

// keySpan maps the keys between two keys to numbers in the same order, by the eight bytes
// after their common prefix.
type keySpan struct {
	prefix   []byte
	from, to uint64
}

func newKeySpan(first, last []byte) keySpan {
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return keySpan{first[:n], leading(first[n:]), leading(last[n:])}
}

// leading returns the first eight bytes as a number.
func leading(b []byte) uint64 {
	var eight [8]byte
	copy(eight[:], b)
	return binary.BigEndian.Uint64(eight[:])
}

func (s keySpan) key(point uint64) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(s.prefix), point)
}

// search returns a point whose key has about the wanted number of bytes before it.
func (s keySpan) search(from, wanted, slack uint64, before func(key []byte) (uint64, error)) (uint64, error) {
	low, high := from, s.to
	for low < high {
		point := low + (high-low)/2
		have, err := before(s.key(point))
		if err != nil {
			return 0, err
		}
		switch {
		case math.Abs(float64(have)-float64(wanted)) <= float64(slack):
			return point, nil
		case have < wanted:
			low = point + 1
		default:
			high = point
		}
	}
	return low, nil
}
