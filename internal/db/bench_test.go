package db

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store/pebble"
)

// ordersWithoutIndexes defines the table orders without its indexes.
func ordersWithoutIndexes(name string) schema.Table {
	t := orders(name)
	t.Indexes = nil
	return t
}

// kilobyte returns an item of 1 KB.
func kilobyte(i int) item.Item {
	return key(fmt.Sprintf("customer-%09d", i), i).With("text", item.String(strings.Repeat("x", 980)))
}

// BenchmarkRestore restores a table on disk. It reports items per second, and the
// memory above what was in use before.
func BenchmarkRestore(b *testing.B) {
	const items = 300_000
	d := newDB(b, newEngine(b, pebble.Options{Dir: b.TempDir()}), Options{})
	create(b, d, ordersWithoutIndexes("Orders"))
	if _, err := d.SetRecovery(b.Context(), "Orders", 1); err != nil {
		b.Fatal(err)
	}
	source, _ := d.find("Orders")
	if err := d.loadItems(b.Context(), source, func(yield func(item.Item, error) bool) {
		for i := range items {
			if !yield(kilobyte(i), nil) {
				return
			}
		}
	}, func(int) {}); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		idle, stop := heapNow(), watchHeap()
		restoreTo(b, d, "Orders", fmt.Sprintf("Restored%d", n), time.Time{})
		b.ReportMetric(float64(stop()-idle)/(1<<20), "MB-above-idle")
		b.StopTimer()
		if _, err := d.DeleteTable(b.Context(), fmt.Sprintf("Restored%d", n)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(items*n)/b.Elapsed().Seconds(), "items/s")
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// watchHeap samples the memory in use. stop returns the largest sample.
func watchHeap() (stop func() uint64) {
	var largest atomic.Uint64
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			largest.Store(max(largest.Load(), m.Sys-m.HeapReleased))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func() uint64 { close(done); watching.Wait(); return largest.Load() }
}

// BenchmarkRecovery measures what point-in-time recovery costs 16 concurrent
// writers of items of 1 KB, with a sync for each group commit.
func BenchmarkRecovery(b *testing.B) {
	for _, days := range []int{0, 35} {
		b.Run(fmt.Sprintf("days=%d", days), func(b *testing.B) {
			d := newDB(b, newEngine(b, pebble.Options{Dir: b.TempDir()}), Options{})
			create(b, d, ordersWithoutIndexes("Orders"))
			if days > 0 {
				if _, err := d.SetRecovery(b.Context(), "Orders", days); err != nil {
					b.Fatal(err)
				}
			}
			var next atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					it := kilobyte(int(next.Add(1)) % 20_000)
					if _, err := d.Write(b.Context(), Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// BenchmarkRestoreToSecond restores a table of 50,000 items of 1 KB to a time
// before changes. It reports the items per second.
func BenchmarkRestoreToSecond(b *testing.B) {
	for _, c := range []struct{ changed, times int }{{500, 1}, {50_000, 1}, {50_000, 8}} {
		b.Run(fmt.Sprintf("changed=%d/times=%d", c.changed, c.times), func(b *testing.B) { benchmarkRestoreToSecond(b, c.changed, c.times) })
	}
}

func benchmarkRestoreToSecond(b *testing.B, changed, times int) {
	const items = 50_000
	d := newDB(b, newEngine(b, pebble.Options{Dir: b.TempDir()}), Options{})
	create(b, d, ordersWithoutIndexes("Orders"))
	source, _ := d.find("Orders")
	all := func(yield func(item.Item, error) bool) {
		for i := range items {
			if !yield(kilobyte(i), nil) {
				return
			}
		}
	}
	if err := d.loadItems(b.Context(), source, all, func(int) {}); err != nil {
		b.Fatal(err)
	}
	if _, err := d.SetRecovery(b.Context(), "Orders", 1); err != nil {
		b.Fatal(err)
	}
	then := time.Now().Truncate(time.Second)
	time.Sleep(time.Until(then.Add(time.Second)))
	for i := range times * changed / 100 {
		writes := make([]Write, 100)
		for j := range writes {
			it := kilobyte((i*100+j)%changed).With("text", item.String(strings.Repeat(string(rune('a'+i%26)), 980)))
			writes[j] = Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
		}
		if _, err := d.Write(b.Context(), writes...); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		n++
		restoreTo(b, d, "Orders", fmt.Sprintf("Restored%d", n), then)
	}
	b.ReportMetric(float64(items*n)/b.Elapsed().Seconds(), "items/s")
}
