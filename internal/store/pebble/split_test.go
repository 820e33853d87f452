package pebble

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

func TestSplits(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Engine)
	}{
		{"an empty range has none", func(t *testing.T, e *Engine) {
			checkSplits(t, e, "", "", 4, 0)
			fillRandom(t, e, "a", 1, 1)
			checkSplits(t, e, "b", "c", 4, 0)
			checkSplits(t, e, "c", "b", 4, 0)
			checkSplits(t, e, "", "", 1, 0)
		}},
		{"a range of one key has none", func(t *testing.T, e *Engine) {
			if err := set(e, "a", []byte("1")); err != nil {
				t.Fatal(err)
			}
			checkSplits(t, e, "a", "a\x00", 4, 0)
		}},
		{"a small range", func(t *testing.T, e *Engine) {
			fillRandom(t, e, "p", 400, 20)
			fillRandom(t, e, "q", 400, 20)
			checkParts(t, e, "p", "q", 4)
		}},
		{"a large range", func(t *testing.T, e *Engine) {
			fillRandom(t, e, "o", 1000, 1000)
			fillRandom(t, e, "p", 8000, 1000)
			fillRandom(t, e, "q", 1000, 1000)
			checkParts(t, e, "p", "q", 8)
		}},
		{"most keys share the first bytes of the first key", func(t *testing.T, e *Engine) {
			fillGroup(t, e, "pAAAAAAAA", 1500)
			fillGroup(t, e, "pBBBBBBBB", 100)
			if s, err := e.splits(t.Context(), []byte("p"), []byte("q"), 4); err != nil {
				t.Errorf("%q, %v", s, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1})
			defer e.Close()
			c.test(t, e)
		})
	}
}

// checkSplits checks that there are at most the given number of splits, and that they
// are inside the range and ascend.
func checkSplits(t *testing.T, e *Engine, start, end string, n, most int) [][]byte {
	t.Helper()
	keys, err := e.splits(t.Context(), []byte(start), []byte(end), n)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) > most {
		t.Errorf("%d splits, want at most %d: %q", len(keys), most, keys)
	}
	before := start
	for _, k := range keys {
		if string(k) <= before || (end != "" && string(k) >= end) {
			t.Errorf("split %q is not between %q and %q", k, before, end)
		}
		before = string(k)
	}
	return keys
}

// checkParts checks that the parts between the splits hold about equally many keys.
func checkParts(t *testing.T, e *Engine, start, end string, n int) {
	t.Helper()
	keys := checkSplits(t, e, start, end, n, n-1)
	if len(keys) < n/2 {
		t.Fatalf("%d splits, want %d", len(keys), n-1)
	}
	bounds := append(append([][]byte{[]byte(start)}, keys...), []byte(end))
	counts, total := make([]int, len(bounds)-1), 0
	for i := range counts {
		err := e.ReadRange(t.Context(), store.Range{Start: bounds[i], End: bounds[i+1], KeysOnly: true}, func(store.Pair) bool {
			counts[i]++
			total++
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if most := slices.Max(counts); most > 3*total/len(counts) {
		t.Errorf("parts are uneven: %v", counts)
	}
}

// fillRandom writes n items with values that do not compress.
func fillRandom(t *testing.T, e *Engine, prefix string, n, size int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	for from := 0; from < n; from += 100 {
		err := e.Update(context.Background(), nil, func(tx store.Tx) error {
			for i := from; i < min(n, from+100); i++ {
				v := make([]byte, size)
				_, _ = random.Read(v)
				tx.Set(fmt.Appendf(nil, "%s%06d", prefix, i), v)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fillGroup writes n items of 1200 bytes whose keys share a prefix.
func fillGroup(t *testing.T, e *Engine, prefix string, n int) {
	t.Helper()
	for i := range n {
		if err := set(e, fmt.Sprintf("%s%06d", prefix, i), bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(i * 7)}, 400)); err != nil {
			t.Fatal(err)
		}
	}
}
