package infer

import (
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// Images is the last images of the items of a table that a stream has, for a sample
// without a scan.
type Images struct {
	Table *schema.Table

	latest map[string]item.Item
	bytes  int
}

// Add adds an image, which replaces an earlier one of the same item. Items beyond the size
// of a sample are not kept.
func (s *Images) Add(it item.Item) {
	if s.latest == nil {
		s.latest = make(map[string]item.Item)
	}
	key := string(keyspace.Item(nil, s.Table, it))
	was, ok := s.latest[key]
	if !ok && len(s.latest) >= maxItems || s.bytes+len(it)-len(was) > maxItemBytes {
		return
	}
	s.latest[key] = it
	s.bytes += len(it) - len(was)
}

// Fill makes the images the items of a sample.
func (s *Images) Fill(sample *TableSample) {
	for _, key := range slices.Sorted(maps.Keys(s.latest)) {
		sample.Items = append(sample.Items, s.latest[key])
	}
	sample.Count = max(sample.Count, int64(len(sample.Items)))
}
