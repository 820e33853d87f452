package pebble

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/stator-db/stator/internal/store"
)

// prefixes let a range of keys that begin with the same bytes pass over the tables
// that have none such. A large range of keys lies in several levels of tables, and
// what is asked for together was often written together, so that it is in one of
// them. (Pebble's own filter knows whole keys; it is for who asks for one.)
//
// Each table has a filter of the beginnings of its keys among its properties. One
// that was written without is not passed over.
type prefixes struct {
	bytes int // of a beginning; none if it is 0
	name  string
}

const prefixFilter = bloom.FilterPolicy(10)

func newPrefixes(bytes int) prefixes {
	return prefixes{bytes: bytes, name: fmt.Sprintf("stator.prefix.%d", bytes)}
}

// of is the beginning that all keys of a range share.
func (p prefixes) of(lower, upper []byte) (prefix []byte, ok bool) {
	if p.bytes == 0 || len(lower) < p.bytes || len(upper) < p.bytes {
		return nil, false
	}
	prefix = lower[:p.bytes]
	return prefix, bytes.Equal(prefix, upper[:p.bytes])
}

// options are those of an iterator over a range.
func (p prefixes) options(r store.Range) *pebble.IterOptions {
	lower, upper := bounds(r.Start, r.End)
	o := &struct {
		pebble.IterOptions
		filter  prefixRange
		filters [2]pebble.BlockPropertyFilter // Pebble appends one of its own
	}{IterOptions: pebble.IterOptions{LowerBound: lower, UpperBound: upper}}
	if prefix, ok := p.of(lower, upper); ok {
		o.filter = prefixRange{name: p.name, prefix: prefix}
		o.filters[0] = &o.filter
		o.PointKeyFilters = o.filters[:1]
	}
	return &o.IterOptions
}

// collectors tell Pebble what to note of a table that it writes.
func (p prefixes) collectors() []func() pebble.BlockPropertyCollector {
	if p.bytes == 0 {
		return nil
	}
	return []func() pebble.BlockPropertyCollector{func() pebble.BlockPropertyCollector {
		return &prefixCollector{prefixes: p, filter: prefixFilter.NewWriter(pebble.TableFilter)}
	}}
}

// prefixCollector gathers the beginnings of a table's keys. A key that is shorter is
// in no range that asks for one.
type prefixCollector struct {
	prefixes
	last   []byte
	filter pebble.FilterWriter
}

// Name is that of the property.
func (c *prefixCollector) Name() string { return c.name }

// AddPointKey is called for each key of the table, deletions too, in order.
func (c *prefixCollector) AddPointKey(key sstable.InternalKey, _ []byte) error {
	if len(key.UserKey) < c.bytes {
		return nil
	}
	if prefix := key.UserKey[:c.bytes]; !bytes.Equal(prefix, c.last) {
		c.last = append(c.last[:0], prefix...)
		c.filter.AddKey(prefix)
	}
	return nil
}

// FinishTable appends the filter.
func (c *prefixCollector) FinishTable(buf []byte) ([]byte, error) { return c.filter.Finish(buf), nil }

// FinishDataBlock appends nothing: blocks are found by their keys.
func (c *prefixCollector) FinishDataBlock([]byte) ([]byte, error) { return nil, nil }

// FinishIndexBlock appends nothing.
func (c *prefixCollector) FinishIndexBlock([]byte) ([]byte, error) { return nil, nil }

// AddPrevDataBlockToIndexBlock has nothing to add.
func (c *prefixCollector) AddPrevDataBlockToIndexBlock() {}

// AddRangeKeys is not called: there are none.
func (c *prefixCollector) AddRangeKeys(sstable.Span) error { return nil }

// SupportsSuffixReplacement says no: keys have no suffix.
func (c *prefixCollector) SupportsSuffixReplacement() bool { return false }

// AddCollectedWithSuffixReplacement is not called.
func (c *prefixCollector) AddCollectedWithSuffixReplacement(_, _, _ []byte) error {
	return fmt.Errorf("%s: keys have no suffix", c.name)
}

// prefixRange is what an iterator over a range asks of a table.
type prefixRange struct {
	name   string
	prefix []byte
}

// Name is that of the property.
func (r *prefixRange) Name() string { return r.name }

// Intersects tells whether a table may have keys with the prefix. A block has no
// property of its own.
func (r *prefixRange) Intersects(filter []byte) (bool, error) {
	return len(filter) == 0 || prefixFilter.MayContain(pebble.TableFilter, filter, r.prefix), nil
}

// SyntheticSuffixIntersects is not called: keys have no suffix.
func (r *prefixRange) SyntheticSuffixIntersects(filter, _ []byte) (bool, error) {
	return r.Intersects(filter)
}
