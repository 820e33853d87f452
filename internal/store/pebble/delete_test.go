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

// Who deletes a range leaves what is known of other keys, and who deletes
// nothing writes nothing: both are done again and again while all else rests.
func TestDeleteRangeTouchesNothingElse(t *testing.T) {
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
	known := func(key string) bool { v, _ := e.values.Get([]byte(key)); return v != nil }
	for _, c := range []struct {
		start, end string
		writes     bool
		gone       []string
		left       []string
	}{
		{start: "b2", end: "b9", left: []string{"a1", "a2", "b1"}},
		{start: "c", end: "d", left: []string{"a1", "a2", "b1"}},
		{start: "a2", end: "b", writes: true, gone: []string{"a2"}, left: []string{"a1", "b1"}},
		{start: "a2", end: "b", gone: []string{"a2"}, left: []string{"a1", "b1"}},
		{start: "a", end: "c", writes: true, gone: []string{"a1", "a2", "b1"}},
	} {
		before := e.db.Metrics().WAL.BytesIn
		if err := e.DeleteRange(ctx, []byte(c.start), []byte(c.end)); err != nil {
			t.Fatal(err)
		}
		if wrote := e.db.Metrics().WAL.BytesIn > before; wrote != c.writes {
			t.Errorf("%s to %s: something is written: %v", c.start, c.end, wrote)
		}
		for _, key := range c.left {
			if !known(key) {
				t.Errorf("%s to %s: %s is forgotten", c.start, c.end, key)
			}
		}
		for _, key := range c.gone {
			if v, err := e.Get(ctx, store.Strong, []byte(key)); err != nil || v[0] != nil {
				t.Errorf("%s to %s: %s is %q, %v", c.start, c.end, key, v[0], err)
			}
		}
	}
}

// While some write keys and others delete ranges of them, who gets a key is never
// shown what a range no longer has.
func TestDeleteRangeBesideWrites(t *testing.T) {
	ctx := context.Background()
	o := InMemory()
	o.CacheBytes = 128 << 10 // so that much is pushed out
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
				t.Fatalf("round %d: %s is got: %v, and stored: %v", round, key(n), got, !got)
			}
		}
	}
}
