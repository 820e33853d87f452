package partition

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name               string
		read, write, bytes int64
		want               int
	}{
		{"a small provisioned table", 5, 5, 0, 1},
		{"a full partition", MaxRead, MaxWrite, MaxBytes, 1},
		{"more reads", MaxRead + 1, 1, 0, 2},
		{"more writes", 1, MaxWrite + 1, 0, 2},
		{"more bytes", 1, 1, MaxBytes + 1, 2},
		{"a new on-demand table", InitialRead, InitialWrite, 0, 4},
		{"the largest table without a higher quota", 40_000, 40_000, 0, 40},
		{"nothing", 0, 0, 0, 1},
	} {
		if got := Count(c.read, c.write, c.bytes); got != c.want {
			t.Errorf("%s: %d partitions, want %d", c.name, got, c.want)
		}
	}
}

// Partitions of the same size are those that scans are charged by
// (keyspace.PartitionOf).
func TestEven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 70; n++ {
		m := Even(n)
		hashes := []uint64{0, ^uint64(0)}
		for i := range n {
			first, last := m.Span(i)
			hashes = append(hashes, first, last, random.Uint64())
		}
		for _, h := range hashes {
			want, _ := bits.Mul64(h, uint64(n))
			if got := m.Of(h); got != int(want) {
				t.Fatalf("hash %x of %d partitions is in %d, want %d", h, n, got, want)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	m := Even(2)
	if _, ok := m.Split(1, 1<<63); ok {
		t.Error("a partition is split before its first hash")
	}
	if _, ok := m.Split(0, 1<<63); ok {
		t.Error("a partition is split after its last hash")
	}
	split, ok := m.Split(1, 3<<62)
	if !ok || split.Len() != 3 || m.Len() != 2 {
		t.Fatalf("split into %d partitions, the map before has %d", split.Len(), m.Len())
	}
	for hash, want := range map[uint64]int{0: 0, 1<<63 - 1: 0, 1 << 63: 1, 3<<62 - 1: 1, 3 << 62: 2, ^uint64(0): 2} {
		if got := split.Of(hash); got != want {
			t.Errorf("hash %x is in partition %d, want %d", hash, got, want)
		}
	}
	if i, middle := split.Widest(); i != 0 || middle != 1<<62 {
		t.Errorf("the widest partition is %d, its middle %x", i, middle)
	}
	all := Even(1)
	if i, middle := all.Widest(); i != 0 || middle != 1<<63 {
		t.Errorf("the middle of all hashes is %x", middle)
	}
}
