package schema

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Each hash belongs to one span that takes changes, and a span to the one that it is a
// half of.
func TestSpans(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	table := &Table{Throughput: Throughput{Read: 5, Write: 5}}
	table.EnableStream("KEYS_ONLY", time.Unix(1, 0))
	table = table.Sealed(10)
	for stamp := uint64(11); stamp < 60; stamp++ {
		before := table.Clone()
		switch {
		case stamp%5 == 0:
			table.Throughput.Write += 1000
			table.FollowPartitions()
		default:
			table.SplitShard(r.Uint64())
		}
		if stamp%5 != 0 && len(before.Streams[0].Splits) == len(table.Streams[0].Splits) {
			t.Fatal("nothing was split")
		}
		table = table.Sealed(stamp)
		s := &table.Streams[0]
		spans := s.Spans()
		var open []ShardSpan
		for _, span := range spans {
			if span.End == 0 {
				open = append(open, span)
			}
			if span.Parent >= 0 && (spans[span.Parent].End != span.Start || spans[span.Parent].First > span.First || spans[span.Parent].Last < span.Last) {
				t.Errorf("%+v is a half of %+v", span, spans[span.Parent])
			}
		}
		slices.SortFunc(open, func(a, b ShardSpan) int {
			if a.First < b.First {
				return -1
			}
			return 1
		})
		next := uint64(0)
		for _, span := range open {
			if span.First != next {
				t.Fatalf("after split at %d a span begins with %x, want %x", stamp, span.First, next)
			}
			next = span.Last + 1
		}
		if next != 0 || len(open) < table.Partitions() {
			t.Fatalf("%d open spans of %d partitions end with %x", len(open), table.Partitions(), next-1)
		}
	}
}

// A stream of an earlier version has four spans.
func TestSpansOfEarlierVersions(t *testing.T) {
	if n := len((&Stream{}).Spans()); n != 4 {
		t.Errorf("there are %d", n)
	}
}

// The number of spans is bounded, and a stream that ends is not split.
func TestSplitsAreBounded(t *testing.T) {
	table := &Table{OnDemand: true}
	table.EnableStream("KEYS_ONLY", time.Unix(1, 0))
	table = table.Sealed(1)
	for i := range uint64(2 * MaxShards) {
		table.SplitShard(i * 0x9e3779b97f4a7c15)
	}
	if n := len(table.Streams[0].Spans()); n > MaxShards || n < MaxShards-2 {
		t.Errorf("there are %d spans", n)
	}
	ending := &Table{OnDemand: true}
	ending.EnableStream("KEYS_ONLY", time.Unix(1, 0))
	ending = ending.Sealed(1)
	ending.DisableStream(time.Unix(2, 0))
	if ending.SplitShard(1<<63) || ending.SplitShard(1<<62+5) {
		t.Error("a stream that ends was split")
	}
}
