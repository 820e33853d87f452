// Package partition models how DynamoDB divides a table or an index into
// partitions: how many there are, and which one a key belongs to.
//
// The service does not publish this. docs/throttling.md says what is documented,
// what was measured, and what is our choice.
package partition

import (
	"math/bits"
	"slices"
)

// A partition serves at most this many units per second, and holds this many
// bytes.
const (
	MaxRead  = 3000
	MaxWrite = 1000
	MaxBytes = 10 << 30
)

// The throughput that a new on-demand table can serve at once.
const (
	InitialRead  = 12_000
	InitialWrite = 4_000
)

// Count returns the number of partitions that serve a throughput and hold a
// number of bytes. A new on-demand table has four: InitialRead and InitialWrite
// divided by what one partition serves.
func Count(read, write, bytes int64) int {
	return int(max(1, ceil(read, MaxRead), ceil(write, MaxWrite), ceil(bytes, MaxBytes)))
}

func ceil(n, per int64) int64 { return (n + per - 1) / per }

// Map assigns the hashes of partition keys to partitions. It is not changed.
type Map struct {
	starts []uint64 // the first hash of each partition; ascending, the first is 0
}

// Even returns a map of n partitions of the same size.
func Even(n int) Map {
	m := Map{make([]uint64, n)}
	for i := range m.starts {
		m.starts[i] = First(i, n)
	}
	return m
}

// First returns the first hash of the i-th of n partitions of the same size.
func First(i, n int) uint64 {
	start, rest := bits.Div64(uint64(i), 0, uint64(n))
	if rest > 0 {
		start++
	}
	return start
}

// Len returns the number of partitions.
func (m Map) Len() int { return len(m.starts) }

// Of returns the partition that a hash belongs to.
func (m Map) Of(hash uint64) int {
	if len(m.starts) == 1 {
		return 0
	}
	i, found := slices.BinarySearch(m.starts, hash)
	if !found {
		i--
	}
	return i
}

// Span returns the first and the last hash of a partition.
func (m Map) Span(i int) (first, last uint64) {
	if i+1 == len(m.starts) {
		return m.starts[i], ^uint64(0)
	}
	return m.starts[i], m.starts[i+1] - 1
}

// Split returns a map in which the hashes of partition i that are not less than
// at belong to a new partition i+1. It is not ok if all of them do, or none.
func (m Map) Split(i int, at uint64) (split Map, ok bool) {
	first, last := m.Span(i)
	if at <= first || at > last {
		return m, false
	}
	return Map{slices.Insert(slices.Clone(m.starts), i+1, at)}, true
}

// Widest returns the partition with the most hashes, the first of several, and
// the hash in the middle of it.
func (m Map) Widest() (i int, middle uint64) {
	var width uint64
	for j := range m.starts {
		first, last := m.Span(j)
		if last-first > width {
			i, width, middle = j, last-first, first+(last-first)/2+1
		}
	}
	return i, middle
}
