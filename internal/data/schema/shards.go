package schema

import (
	"cmp"
	"slices"

	"github.com/stator-db/stator/internal/data/partition"
)

// MaxShards is the most spans that a stream ever has, those that were split
// included. It bounds the description of a table.
const MaxShards = 2048

// defaultShards is the number of shards of streams of earlier versions.
const defaultShards = 4

// ShardSplit says that the shards of a span were split.
type ShardSplit struct {
	Span  int    `json:"span"`
	At    uint64 `json:"at"`    // the first hash of the second half
	Stamp uint64 `json:"stamp"` // the first stamp in the halves; 0 until the description is stored
}

// ShardSpan is the partition keys whose changes one shard after another takes.
type ShardSpan struct {
	First, Last uint64 // hashes of the partition keys
	Start       uint64 // the first stamp in it
	End         uint64 // the first stamp after it; 0 while it takes changes
	Parent      int    // the span that it is a half of, or -1
}

// Spans returns the spans of a stream: first those that it began with, and then the
// two halves of each one that was split. A span keeps its place in the list.
func (s *Stream) Spans() []ShardSpan {
	n := cmp.Or(s.Shards, defaultShards)
	spans := make([]ShardSpan, n, n+2*len(s.Splits))
	even := partition.Even(n)
	for i := range spans {
		first, last := even.Span(i)
		spans[i] = ShardSpan{First: first, Last: last, Start: s.Start, Parent: -1}
	}
	for _, split := range s.Splits {
		if split.Span < 0 || split.Span >= len(spans) {
			break // it is damaged
		}
		p := &spans[split.Span]
		p.End = split.Stamp
		spans = append(spans,
			ShardSpan{First: p.First, Last: split.At - 1, Start: split.Stamp, Parent: split.Span},
			ShardSpan{First: split.At, Last: p.Last, Start: split.Stamp, Parent: split.Span})
	}
	return spans
}

// leaves returns the spans that are not split, and their places in the list.
func (s *Stream) leaves() (spans []ShardSpan, places []int) {
	all := s.Spans()
	isSplit := make(map[int]bool)
	for _, split := range s.Splits {
		isSplit[split.Span] = true
	}
	for i, span := range all {
		if !isSplit[i] {
			spans, places = append(spans, span), append(places, i)
		}
	}
	return spans, places
}

// open returns the stream that takes changes, if there is one and it may be split, as
// a copy that can be changed.
func (t *Table) open() (s *Stream, ok bool) {
	if s, ok = t.Stream(); !ok || !s.Ended.IsZero() {
		return nil, false
	}
	t.Streams = slices.Clone(t.Streams)
	s = &t.Streams[len(t.Streams)-1]
	s.Splits = slices.Clone(s.Splits)
	return s, true
}

// FollowPartitions splits shards of the table's stream until there are as many as the
// table has partitions, the widest first.
func (t *Table) FollowPartitions() {
	if now, ok := t.Stream(); !ok || len(now.Splits)+cmp.Or(now.Shards, defaultShards) >= t.Partitions() {
		return
	}
	s, ok := t.open()
	if !ok {
		return
	}
	for {
		leaves, places := s.leaves()
		if len(leaves) >= t.Partitions() {
			return
		}
		widest := 0
		for i, leaf := range leaves {
			if leaf.Last-leaf.First > leaves[widest].Last-leaves[widest].First {
				widest = i
			}
		}
		leaf := leaves[widest]
		if !s.split(places[widest], leaf.First+(leaf.Last-leaf.First)/2+1) {
			return
		}
	}
}

// SplitShard splits the shard of the table's stream that takes changes of keys with a
// hash, so that the second half begins with that hash. It reports whether it did.
func (t *Table) SplitShard(at uint64) bool {
	s, ok := t.open()
	if !ok {
		return false
	}
	leaves, places := s.leaves()
	for i, leaf := range leaves {
		if leaf.First < at && at <= leaf.Last {
			return s.split(places[i], at)
		}
	}
	return false
}

func (s *Stream) split(span int, at uint64) bool {
	if cmp.Or(s.Shards, defaultShards)+2*len(s.Splits)+2 > MaxShards {
		return false
	}
	s.Splits = append(s.Splits, ShardSplit{Span: span, At: at})
	return true
}
