package pebble

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/stator-db/stator/internal/store"
)

// prefixes lets a range of one prefix skip the tables that have no key with it. Keys of a
// large store are in several levels of tables, but keys that are read together were often
// written together, and are then in one of them. (Pebble's own filters are of whole keys,
// and serve reads of single keys.)
//
// Each table has a bloom filter of the prefixes of its keys among its properties. A table
// without one is not skipped.
type prefixes struct {
	bytes int // of a prefix; 0 for no prefixes
	name  string
}

const prefixFilter = bloom.FilterPolicy(10)

func newPrefixes(bytes int) prefixes {
	return prefixes{bytes: bytes, name: fmt.Sprintf("stator.prefix.%d", bytes)}
}

// of returns the prefix that all keys of a range share.
func (p prefixes) of(lower, upper []byte) (prefix []byte, ok bool) {
	if p.bytes == 0 || len(lower) < p.bytes || len(upper) < p.bytes {
		return nil, false
	}
	prefix = lower[:p.bytes]
	return prefix, bytes.Equal(prefix, upper[:p.bytes])
}

// options returns the options of an iterator over a range.
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

// collectors returns the collectors that Pebble runs over each table that it writes.
func (p prefixes) collectors() []func() pebble.BlockPropertyCollector {
	if p.bytes == 0 {
		return nil
	}
	return []func() pebble.BlockPropertyCollector{func() pebble.BlockPropertyCollector {
		return &prefixCollector{prefixes: p, filter: prefixFilter.NewWriter(pebble.TableFilter)}
	}}
}

// prefixCollector collects the prefixes of a table's keys. A key that is shorter is in no
// range of one prefix.
type prefixCollector struct {
	prefixes
	last   []byte
	filter pebble.FilterWriter
}

// Name returns the name of the property.
func (c *prefixCollector) Name() string { return c.name }

// AddPointKey is called for each key of the table in order, tombstones included.
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

// FinishDataBlock appends nothing: blocks are found by key.
func (c *prefixCollector) FinishDataBlock([]byte) ([]byte, error) { return nil, nil }

// FinishIndexBlock appends nothing.
func (c *prefixCollector) FinishIndexBlock([]byte) ([]byte, error) { return nil, nil }

// AddPrevDataBlockToIndexBlock adds nothing.
func (c *prefixCollector) AddPrevDataBlockToIndexBlock() {}

// AddRangeKeys adds nothing: there are no range keys, only deletes of them (coverLevelZero).
func (c *prefixCollector) AddRangeKeys(sstable.Span) error { return nil }

// SupportsSuffixReplacement returns false: keys have no suffix.
func (c *prefixCollector) SupportsSuffixReplacement() bool { return false }

// AddCollectedWithSuffixReplacement is not called.
func (c *prefixCollector) AddCollectedWithSuffixReplacement(_, _, _ []byte) error {
	return fmt.Errorf("%s: keys have no suffix", c.name)
}

// prefixRange is the filter of an iterator over a range of one prefix.
type prefixRange struct {
	name   string
	prefix []byte
}

// Name returns the name of the property.
func (r *prefixRange) Name() string { return r.name }

// Intersects reports whether a table may have keys with the prefix. Blocks do not have the
// property.
func (r *prefixRange) Intersects(filter []byte) (bool, error) {
	return len(filter) == 0 || prefixFilter.MayContain(pebble.TableFilter, filter, r.prefix), nil
}

// SyntheticSuffixIntersects is not called: keys have no suffix.
func (r *prefixRange) SyntheticSuffixIntersects(filter, _ []byte) (bool, error) {
	return r.Intersects(filter)
}
