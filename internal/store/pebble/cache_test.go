package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// Counters that many writers increment never decrease, however they are read.
func TestCacheIsNeverStale(t *testing.T) {
	for _, o := range []Options{InMemory(), {Dir: t.TempDir()}} {
		o.CacheBytes = 128 << 10 // so that much is evicted
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		neverStale(t, e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func neverStale(t *testing.T, e *Engine) {
	const keys, writers, readers, rounds = 16, 4, 4, 1500
	ctx := context.Background()
	key := func(n int) []byte { return fmt.Appendf(nil, "counter %02d", n) }
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				k := key(random.IntN(keys))
				err := e.Update(ctx, [][]byte{k}, func(tx store.Tx) error {
					v, _ := tx.Get(k)
					tx.Set(k, binary.BigEndian.AppendUint64(make([]byte, 0, 200), counter(v)+1))
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for r := range readers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(r)))
			var seen [keys]uint64
			for range rounds {
				n := random.IntN(keys)
				var got uint64
				if random.IntN(4) == 0 { // without the cache
					err := e.ReadRange(ctx, store.Range{Start: key(n), End: key(n + 1)}, func(p store.Pair) bool {
						got = counter(p.Value)
						return true
					})
					if err != nil {
						t.Error(err)
						return
					}
				} else {
					v, err := e.Get(ctx, store.Strong, key(n))
					if err != nil {
						t.Error(err)
						return
					}
					got = counter(v[0])
				}
				if got < seen[n] {
					t.Errorf("counter %d was %d and is %d", n, seen[n], got)
					return
				}
				seen[n] = got
			}
		})
	}
	all.Wait()
	var total uint64
	for n := range keys {
		v, err := e.Get(ctx, store.Strong, key(n))
		if err != nil {
			t.Fatal(err)
		}
		total += counter(v[0])
	}
	if total != writers*rounds {
		t.Errorf("the counters add up to %d, want %d", total, writers*rounds)
	}
	if err := e.DeleteRange(ctx, key(0), key(keys)); err != nil {
		t.Fatal(err)
	}
	for n := range keys {
		if v, err := e.Get(ctx, store.Strong, key(n)); err != nil || v[0] != nil {
			t.Errorf("counter %d after DeleteRange: %x, %v", n, v[0], err)
		}
	}
}

func counter(v []byte) uint64 {
	if v == nil {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// The keys of a large Update can be cached like any other. (Pebble takes the bytes of its
// batch away.)
func TestCacheAfterLargeUpdate(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1, memtableBytes: 256 << 10})
	defer e.Close()
	const keys, size = 200, 1000 // more than half a memtable
	key := func(i int) []byte { return fmt.Appendf(nil, "large %d", i) }
	before := e.compaction.written.Load()
	if err := e.Update(ctx, nil, func(tx store.Tx) error {
		for i := range keys {
			tx.Set(key(i), bytes.Repeat([]byte{1}, size))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := e.compaction.written.Load() - before; n < keys*size {
		t.Errorf("%d bytes are counted as written, want at least %d", n, keys*size)
	}
	for i := range keys {
		if _, err := e.Get(ctx, store.Strong, key(i)); err != nil {
			t.Fatal(err)
		}
		if v, _ := e.values.Get(key(i)); v == nil {
			t.Fatalf("%s was read, and is not cached", key(i))
		}
	}
}
