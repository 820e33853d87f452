package pebble

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// DeleteRange leaves other keys in the value cache, and writes nothing for an empty range: it
// is called regularly on an idle engine.
func TestDeleteRangeLeavesOtherKeys(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, key := range []string{"a1", "a2", "b1"} {
		if err := set(e, key, []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	cached := func(key string) bool { v, _ := e.values.Get([]byte(key)); return v != nil }
	for _, c := range []struct {
		start, end string
		writes     bool
		deleted    []string
		left       []string
	}{
		{start: "b2", end: "b9", left: []string{"a1", "a2", "b1"}},
		{start: "c", end: "d", left: []string{"a1", "a2", "b1"}},
		{start: "a2", end: "b", writes: true, deleted: []string{"a2"}, left: []string{"a1", "b1"}},
		{start: "a2", end: "b", deleted: []string{"a2"}, left: []string{"a1", "b1"}},
		{start: "a", end: "c", writes: true, deleted: []string{"a1", "a2", "b1"}},
	} {
		before := e.db.Metrics().WAL.BytesIn
		if err := e.DeleteRange(ctx, []byte(c.start), []byte(c.end)); err != nil {
			t.Fatal(err)
		}
		if wrote := e.db.Metrics().WAL.BytesIn > before; wrote != c.writes {
			t.Errorf("%s to %s: the WAL grows: %v", c.start, c.end, wrote)
		}
		for _, key := range c.left {
			if !cached(key) {
				t.Errorf("%s to %s: %s is not cached", c.start, c.end, key)
			}
		}
		for _, key := range c.deleted {
			if v, err := e.Get(ctx, store.Strong, []byte(key)); err != nil || v[0] != nil {
				t.Errorf("%s to %s: %s is %q, %v", c.start, c.end, key, v[0], err)
			}
		}
	}
}

// During concurrent writes and range deletes, Get never returns a key that ReadRange does not
// have.
func TestDeleteRangeDuringWrites(t *testing.T) {
	ctx := context.Background()
	o := InMemory()
	o.CacheBytes = 128 << 10 // so that much is evicted
	e := mustOpen(t, o)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	const keys, rounds = 64, 100
	key := func(n int) []byte { return fmt.Appendf(nil, "key %02d", n) }
	for round := range rounds {
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for range 20 {
					if err := set(e, string(key(random.IntN(keys))), bytes.Repeat([]byte{1}, 200)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			if err := e.DeleteRange(ctx, key(0), key(keys)); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		stored := make(map[string]bool)
		if err := e.ReadRange(ctx, store.Range{KeysOnly: true}, func(p store.Pair) bool {
			stored[string(p.Key)] = true
			return true
		}); err != nil {
			t.Fatal(err)
		}
		for n := range keys {
			v, err := e.Get(ctx, store.Strong, key(n))
			if err != nil {
				t.Fatal(err)
			}
			if got := v[0] != nil; got != stored[string(key(n))] {
				t.Fatalf("round %d: Get returns %s: %v, ReadRange: %v", round, key(n), got, !got)
			}
		}
	}
}
