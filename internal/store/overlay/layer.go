package overlay

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/stator-db/stator/internal/store"
)

// layer is what an engine has written since it was forked. It never changes: an Update
// makes another one.
type layer struct {
	root   *node
	hidden []span // keys of the base that were deleted by range, in order; they do not touch
	bytes  int64  // memory of root and hidden
}

// span is the keys of [start, end).
type span struct{ start, end []byte }

func (s span) bytes() int64 { return int64(nodeBytes + len(s.start) + len(s.end)) }

// hides reports whether a key of the base was deleted by range.
func (s *layer) hides(key []byte) bool {
	i := sort.Search(len(s.hidden), func(i int) bool { return bytes.Compare(key, s.hidden[i].end) < 0 })
	return i < len(s.hidden) && bytes.Compare(key, s.hidden[i].start) >= 0
}

// visible returns the parts of a range in which keys of the base are seen, in order.
func (s *layer) visible(start, end []byte) []span {
	var parts []span
	for _, h := range s.hidden {
		if bytes.Compare(h.end, start) <= 0 {
			continue
		}
		if bytes.Compare(h.start, end) >= 0 {
			break
		}
		if bytes.Compare(start, h.start) < 0 {
			parts = append(parts, span{start, h.start})
		}
		start = h.end
	}
	if bytes.Compare(start, end) < 0 {
		parts = append(parts, span{start, end})
	}
	return parts
}

// hide returns the state without the keys of a range.
func (s *layer) hide(start, end []byte) *layer {
	before, rest := s.root.split(start)
	dropped, after := rest.split(end)
	next := &layer{root: merge(before, after), bytes: s.bytes - dropped.total()}
	added := span{bytes.Clone(start), bytes.Clone(end)}
	for _, h := range s.hidden {
		if bytes.Compare(h.end, added.start) < 0 || bytes.Compare(added.end, h.start) < 0 {
			next.hidden = append(next.hidden, h)
			continue
		}
		next.bytes -= h.bytes()
		if bytes.Compare(h.start, added.start) < 0 {
			added.start = h.start
		}
		if bytes.Compare(added.end, h.end) < 0 {
			added.end = h.end
		}
	}
	next.hidden = append(next.hidden, added)
	next.bytes += added.bytes()
	slices.SortFunc(next.hidden, func(a, b span) int { return bytes.Compare(a.start, b.start) })
	return next
}

// get reads keys; nil for those that are absent.
func (s *layer) get(ctx context.Context, base store.Snapshot, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	var below [][]byte
	var at []int
	for i, key := range keys {
		if n := s.root.find(key); n != nil {
			values[i] = n.value
		} else if !s.hides(key) {
			below, at = append(below, key), append(at, i)
		}
	}
	if len(below) == 0 {
		return values, ctx.Err()
	}
	read, err := base.Get(ctx, below...)
	if err != nil {
		return nil, err
	}
	for i, v := range read {
		values[at[i]] = v
	}
	return values, nil
}

// scan yields the pairs of a range. It returns nil when yield returns false.
func (s *layer) scan(ctx context.Context, base store.Snapshot, r store.Range, yield func(store.Pair) bool) error {
	start, end := bounds(r.Start, r.End)
	own := newCursor(s.root, start, end, r.Reverse)
	parts := s.visible(start, end)
	if r.Reverse {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		below := store.Range{Start: part.start, End: part.end, Reverse: r.Reverse, KeysOnly: r.KeysOnly}
		for p, err := range base.Scan(ctx, below) {
			if err != nil {
				return err
			}
			replaced, more, err := own.yieldUpTo(ctx, p.Key, r.KeysOnly, yield)
			if err != nil || !more {
				return err
			}
			if !replaced && !yield(p) {
				return nil
			}
		}
	}
	_, _, err := own.yieldUpTo(ctx, nil, r.KeysOnly, yield)
	return err
}

// yieldUpTo yields the pairs up to a key, and reports whether the tree has that key, which
// may be deleted there; nil is after all keys. more is false if yield returned false.
func (c *cursor) yieldUpTo(ctx context.Context, key []byte, keysOnly bool, yield func(store.Pair) bool) (has, more bool, _ error) {
	for n := c.node(); n != nil; n = c.node() {
		if key != nil {
			order := bytes.Compare(n.key, key)
			if c.reverse {
				order = -order
			}
			if order > 0 {
				break
			}
			has = order == 0
		}
		if err := ctx.Err(); err != nil {
			return false, false, err
		}
		c.next()
		if n.value != nil {
			p := store.Pair{Key: n.key, Value: n.value}
			if keysOnly {
				p.Value = nil
			}
			if !yield(p) {
				return has, false, nil
			}
		}
		if has {
			break
		}
	}
	return has, true, nil
}

// bounds restricts a range to keys that are not reserved.
func bounds(start, end []byte) (lower, upper []byte) {
	lower, upper = []byte{0}, []byte{store.Reserved}
	if len(start) > 0 {
		lower = start
	}
	if len(end) > 0 && end[0] != store.Reserved {
		upper = end
	}
	return lower, upper
}
