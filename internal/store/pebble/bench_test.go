package pebble

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir := b.TempDir()
			b.StartTimer()
			e := mustOpen(b, Options{Dir: dir})
			b.StopTimer()
			_ = e.Close()
			b.StartTimer()
		}
	})
	b.Run("existing", func(b *testing.B) {
		o := Options{Dir: b.TempDir()}
		_ = mustOpen(b, o).Close()
		for b.Loop() {
			e := mustOpen(b, o)
			b.StopTimer()
			_ = e.Close()
			b.StartTimer()
		}
	})
}

// One hot key is not limited by the rate of the disk's syncs: 64 writers share them.
func BenchmarkUpdate(b *testing.B) {
	for _, spread := range []string{"same key", "different keys"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", spread, writers), func(b *testing.B) {
				e := mustOpen(b, Options{Dir: b.TempDir()})
				defer e.Close()
				value := make([]byte, 256)
				var n atomic.Uint64
				b.SetParallelism(max(1, writers/runtime.GOMAXPROCS(0)))
				if writers == 1 {
					b.SetParallelism(1)
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				}
				b.ReportAllocs()
				b.RunParallel(func(p *testing.PB) {
					key := []byte("hot")
					for p.Next() {
						if spread == "different keys" {
							key = fmt.Appendf(key[:0], "key %d", n.Add(1)*0x9e3779b97f4a7c15)
						}
						err := e.Update(context.Background(), [][]byte{key}, func(tx store.Tx) error {
							tx.Get(key)
							tx.Set(key, value)
							return nil
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkGet(b *testing.B) {
	e := mustOpen(b, Options{Dir: b.TempDir(), Durability: Relaxed})
	defer e.Close()
	const n = 100_000
	key := func(i uint64) []byte { return fmt.Appendf(nil, "key %d", i*0x9e3779b97f4a7c15) }
	for i := uint64(0); i < n; i += 1000 {
		err := e.Update(context.Background(), nil, func(tx store.Tx) error {
			for j := i; j < i+1000; j++ {
				tx.Set(key(j), make([]byte, 256))
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := e.db.Flush(); err != nil {
		b.Fatal(err)
	}
	var next atomic.Uint64
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			v, err := e.Get(context.Background(), store.Strong, key(next.Add(1)*7919%n))
			if err != nil || v[0] == nil {
				b.Error(v, err)
			}
		}
	})
}
