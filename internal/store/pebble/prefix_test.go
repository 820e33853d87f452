package pebble

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// prefixedKey has one of a hundred prefixes of four bytes.
func prefixedKey(prefix, n int) string { return fmt.Sprintf("p%03d/%03d", prefix%100, n) }

const prefixBytes = 4

// However keys are spread over tables with filters, tables without and memtables, and however
// they are deleted, a range of one prefix returns all that exist.
func TestPrefixFiltersHideNothing(t *testing.T) {
	const seeds, steps = 8, 2000
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			fs := vfs.NewMem()
			open := func() *Engine {
				return mustOpen(t, Options{FS: fs, Dir: "d", memtableBytes: 64 << 10, PrefixBytes: prefixBytes * random.IntN(2)})
			}
			e := open()
			defer func() { _ = e.Close() }()
			model := make(map[string]string)
			for step := range steps {
				switch random.IntN(20) {
				default:
					key, value := prefixedKey(random.IntN(20), random.IntN(30)), fmt.Sprint(step)
					if err := set(e, key, []byte(value)); err != nil {
						t.Fatal(err)
					}
					model[key] = value
				case 0, 1, 2:
					key := prefixedKey(random.IntN(20), random.IntN(30))
					err := e.Update(t.Context(), [][]byte{[]byte(key)}, func(tx store.Tx) error {
						tx.Delete([]byte(key))
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					delete(model, key)
				case 3:
					if random.IntN(10) > 0 {
						continue
					}
					start, end := prefixedKey(random.IntN(20), random.IntN(30)), prefixedKey(random.IntN(20), random.IntN(30))
					if start >= end {
						continue
					}
					if err := e.DeleteRange(t.Context(), []byte(start), []byte(end)); err != nil {
						t.Fatal(err)
					}
					maps.DeleteFunc(model, func(key, _ string) bool { return start <= key && key < end })
				case 4:
					if err := e.db.Flush(); err != nil {
						t.Fatal(err)
					}
				case 5:
					if random.IntN(20) == 0 {
						if err := e.Close(); err != nil {
							t.Fatal(err)
						}
						e = open()
					}
				case 6:
					if random.IntN(20) == 0 {
						if err := e.db.Compact(t.Context(), []byte("a"), []byte("z"), false); err != nil {
							t.Fatal(err)
						}
					}
				case 7, 8:
					prefix := random.IntN(21)
					r := store.Range{Start: []byte(prefixedKey(prefix, random.IntN(30))), End: []byte(prefixedKey(prefix, random.IntN(31))), Reverse: random.IntN(2) == 0}
					compareRange(t, e, r, model)
				}
			}
			for prefix := range 21 {
				compareRange(t, e, store.Range{Start: []byte(prefixedKey(prefix, 0)), End: []byte(prefixedKey(prefix, 31))}, model)
			}
		})
	}
}

// compareRange compares a range with a model, by ReadRange and by Scan.
func compareRange(t *testing.T, e *Engine, r store.Range, model map[string]string) {
	t.Helper()
	var want, read, scanned []string
	for _, key := range slices.Sorted(maps.Keys(model)) {
		if string(r.Start) <= key && key < string(r.End) {
			want = append(want, key+"="+model[key])
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	err := e.ReadRange(context.Background(), r, func(p store.Pair) bool {
		read = append(read, string(p.Key)+"="+string(p.Value))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := e.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for p, err := range snap.Scan(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
		scanned = append(scanned, string(p.Key)+"="+string(p.Value))
	}
	if !slices.Equal(read, want) || !slices.Equal(scanned, want) {
		t.Fatalf("%q to %q has %q by ReadRange and %q by Scan, want %q", r.Start, r.End, read, scanned, want)
	}
}

// A range of one prefix reads only the tables that have it, and all tables without filters.
func TestPrefixFiltersSkipTables(t *testing.T) {
	const tables = 4 // few enough that Pebble mostly does not compact them
	blocks := func(prefixBytes int) int64 {
		e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", PrefixBytes: prefixBytes, IdleFlush: -1})
		defer func() { _ = e.Close() }()
		for table := range tables {
			for _, prefix := range []int{0, 10 + table, 99} { // so that the bounds of all tables include the range
				if err := set(e, prefixedKey(prefix, table), []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			if table+1 == tables {
				break // it stays in the memtable
			}
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		read := func() int64 { m := e.db.Metrics().BlockCache; return m.Hits + m.Misses }
		before := read()
		one := store.Range{Start: []byte(prefixedKey(12, 0)), End: []byte(prefixedKey(12, 31))}
		n := 0
		if err := e.ReadRange(t.Context(), one, func(store.Pair) bool { n++; return true }); err != nil || n != 1 {
			t.Fatalf("%d keys found, %v, want one", n, err)
		}
		return read() - before
	}
	var with, without int64
	for range 5 {
		if with, without = blocks(prefixBytes), blocks(0); with < without {
			return
		}
	}
	t.Errorf("%d blocks are read with filters, and %d without", with, without)
}

func TestPrefixOfARange(t *testing.T) {
	p := newPrefixes(15)
	for _, c := range []struct {
		name       string
		start, end string
		want       string
	}{
		{"one prefix", "the first partition: a", "the first partition: b", "the first parti"},
		{"many prefixes", "a", "z", ""},
		{"no end", "the first partition: ", "", ""},
		{"two prefixes", "another partition", "the first partition", ""},
	} {
		prefix, ok := p.of([]byte(c.start), []byte(c.end))
		if ok != (c.want != "") || ok && string(prefix) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, prefix, ok, c.want)
		}
	}
}
