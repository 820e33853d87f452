package keyspace

import (
	"bytes"

	"github.com/stator-db/stator/internal/data/item"
)

// Op is a comparison that a range of sort keys can serve.
type Op int

// The comparisons. Between has two values, the others one.
const (
	Equal Op = iota
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	Between
	BeginsWith
)

// Bound restricts a partition to some of its sort keys: the first attributes
// of the sort key are equal to values, and the next one compares by Op. The
// zero Bound is no restriction.
type Bound struct {
	Equals []item.Value
	Op     Op
	Values []item.Value // of the comparison; empty for no comparison

	// OpenLow and OpenHigh exclude the first and the second value of a Between.
	OpenLow, OpenHigh bool
}

// Span returns the range of the keys of a partition, which begin with prefix,
// that are within the bound.
func (b Bound) Span(prefix []byte) (start, end []byte) {
	prefix = appendSorts(prefix[:len(prefix):len(prefix)], b.Equals)
	first, last := prefix, successor(prefix)
	if len(b.Values) == 0 {
		return first, last
	}
	key := func(v item.Value) []byte { return appendSort(prefix[:len(prefix):len(prefix)], v) }
	at := key(b.Values[0])
	switch b.Op {
	case Equal:
		return at, successor(at)
	case Less:
		return first, at
	case LessOrEqual:
		return first, successor(at)
	case Greater:
		return successor(at), last
	case GreaterOrEqual:
		return at, last
	case Between:
		return b.between(at, key(b.Values[1]))
	case BeginsWith:
		begin := escape(prefix[:len(prefix):len(prefix)], b.Values[0].Bytes())
		return begin, successor(begin)
	}
	panic("unknown comparison")
}

// between returns the range from low to high, which is empty if no key is within
// its open ends.
func (b Bound) between(low, high []byte) (start, end []byte) {
	start, end = low, successor(high)
	if b.OpenLow {
		start = successor(low)
	}
	if b.OpenHigh {
		end = high
	}
	if bytes.Compare(start, end) > 0 {
		end = start
	}
	return start, end
}
