package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func draw(seed uint64, n, times int) []int {
	z, r := newZipf(n), rand.New(rand.NewPCG(seed, 0))
	drawn := make([]int, times)
	for i := range drawn {
		drawn[i] = z.item(r)
	}
	return drawn
}

func TestZipfFollowsItsSeed(t *testing.T) {
	first, again, other := draw(3, 1000, 500), draw(3, 1000, 500), draw(4, 1000, 500)
	if !slices.Equal(first, again) {
		t.Error("the same seed draws different numbers")
	}
	if slices.Equal(first, other) {
		t.Error("another seed draws the same numbers")
	}
}

// Few numbers are frequent, none is out of range.
func TestZipfIsSkewed(t *testing.T) {
	const n, times = 100_000, 200_000
	times100 := map[int]int{}
	for _, i := range draw(1, n, times) {
		if i < 0 || i >= n {
			t.Fatalf("%d is drawn, of %d", i, n)
		}
		times100[i]++
	}
	var counts []int
	for _, c := range times100 {
		counts = append(counts, c)
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	top := 0
	for _, c := range counts[:100] {
		top += c
	}
	if share := float64(top) / times; share < 0.38 || share > 0.48 {
		t.Errorf("the most frequent hundred of %d have %.2f of all", n, share)
	}
}

// Spreading maps no two ranks to the same item.
func TestZipfSpreadsRanks(t *testing.T) {
	for _, n := range []uint64{10, 2000, 50_000} {
		seen := map[uint64]bool{}
		for rank := range n {
			seen[rank*2_654_435_761%n] = true
		}
		if len(seen) != int(n) {
			t.Errorf("%d ranks map to %d items", n, len(seen))
		}
	}
}
