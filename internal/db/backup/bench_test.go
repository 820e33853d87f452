package backup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
)

// BenchmarkBackup backs up a table on disk and restores it. It reports items of
// 1 KB per second.
func BenchmarkBackup(b *testing.B) {
	const items = 100_000
	h := open(b, b.TempDir(), openFolder(b, b.TempDir()))
	def := orders("Orders")
	def.Indexes = nil
	if _, err := h.CreateTable(b.Context(), def); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < items; i += 100 {
		var writes []db.Write
		for j := range 100 {
			it := item.Make(map[string]item.Value{"id": item.String(fmt.Sprintf("customer-%09d", i+j)), "at": item.String("1"), "text": item.String(strings.Repeat("x", 980))})
			writes = append(writes, db.Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: db.Replace(it)})
		}
		if _, err := h.Write(b.Context(), writes...); err != nil {
			b.Fatal(err)
		}
	}
	var made Backup
	b.Run("backup", func(b *testing.B) {
		for b.Loop() {
			made = h.backUp(b, "Orders")
		}
		b.ReportMetric(float64(items*b.N)/b.Elapsed().Seconds(), "items/s")
	})
	b.Run("restore", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if _, err := h.Restore(b.Context(), made.ID, as(fmt.Sprintf("Restored%d", n))); err != nil {
				b.Fatal(err)
			}
			if !h.waitRestored(fmt.Sprintf("Restored%d", n)) {
				b.Fatal("the restore failed")
			}
		}
		b.ReportMetric(float64(items*n)/b.Elapsed().Seconds(), "items/s")
	})
}
