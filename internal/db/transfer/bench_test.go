package transfer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/store/pebble"
)

// kilobyte returns an item of 1 KB in several attributes, half of it random.
func kilobyte(r *rand.Rand, i int) item.Item {
	noise := make([]byte, 240)
	for j := range noise {
		noise[j] = byte(r.Uint32())
	}
	return item.Make(map[string]item.Value{
		"id": item.String(fmt.Sprintf("customer-%09d", i)), "at": item.String("2027-01-15T08:00:00Z"),
		"name": item.String("Some Customer Or Other"), "note": item.String(fmt.Sprintf("%0400d", i)), "noise": item.String(fmt.Sprintf("%x", noise)),
	})
}

// simpleTable defines a table with a partition key and no index.
func simpleTable(name string) schema.Table {
	id := []schema.Attribute{{Name: "id", Type: item.S}}
	return schema.Table{Name: name, Key: schema.Key{Partition: id}, Attributes: id}
}

// BenchmarkTransfer imports files of 1 KB items and exports the table again. It
// reports items per second, and the memory above what was in use before.
func BenchmarkTransfer(b *testing.B) {
	const items, perFile = 300_000, 100_000
	h := openOn(b, pebble.Options{Dir: b.TempDir()}, b.TempDir(), &manualClock{now: time.Unix(1_800_000_000, 0)})
	r := rand.New(rand.NewPCG(1, 2))
	for f := range items / perFile {
		var packed, plain bytes.Buffer
		zip, err := gzip.NewWriterLevel(&packed, gzip.DefaultCompression)
		if err != nil {
			b.Fatal(err)
		}
		for i := range perFile {
			line := append(wire.AppendItem([]byte(`{"Item":`), kilobyte(r, f*perFile+i)), "}\n"...)
			plain.Write(line)
			zip.Write(line)
		}
		zip.Close()
		h.write(b, fmt.Sprintf("gzip/%d.json.gz", f), packed.Bytes())
		h.write(b, fmt.Sprintf("plain/%d.json", f), plain.Bytes())
	}
	n := 0
	for _, compression := range []string{GZIP, None} {
		b.Run("import "+compression, func(b *testing.B) {
			from := n
			for b.Loop() {
				n++
				name := fmt.Sprintf("Table%d", n)
				idle, stop := heapBytes(), watchHeap()
				j, err := h.StartImport(b.Context(), Job{Table: name, Bucket: "files", Prefix: map[string]string{GZIP: "gzip/", None: "plain/"}[compression],
					Format: JSON, Import: &Import{Compression: compression, Parameters: []byte("{}")}}, simpleTable(name))
				if err != nil {
					b.Fatal(err)
				}
				if j = h.waitEnded(b, j.ID, true); j.Items != items {
					b.Fatalf("the import is %+v, want %d items", j, items)
				}
				b.ReportMetric(float64(stop()-idle)/(1<<20), "MB-above-idle")
			}
			b.ReportMetric(float64(items*(n-from))/b.Elapsed().Seconds(), "items/s")
		})
	}
	name := fmt.Sprintf("Table%d", n)
	if _, err := h.SetRecovery(b.Context(), name, 1); err != nil {
		b.Fatal(err)
	}
	h.pass(time.Second)
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			idle, stop := heapBytes(), watchHeap()
			if j := h.export(b, name, JSON, h.exportNow()); j.Items != items {
				b.Fatalf("the export is %+v, want %d items", j, items)
			}
			b.ReportMetric(float64(stop()-idle)/(1<<20), "MB-above-idle")
		}
		b.ReportMetric(float64(items*b.N)/b.Elapsed().Seconds(), "items/s")
	})
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watchHeap samples the size of the heap. stop returns the largest one.
func watchHeap() (stop func() uint64) {
	var largest atomic.Uint64
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			largest.Store(max(largest.Load(), m.HeapAlloc))
			select {
			case <-stopping:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stopping)
		<-stopped
		return largest.Load()
	}
}
