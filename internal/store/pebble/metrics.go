package pebble

import (
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
)

var _ store.MetricsReporter = (*Engine)(nil)

// Metrics returns the state of Pebble and of the caches.
func (e *Engine) Metrics() []metrics.Metric {
	m := e.db.Metrics()
	hits, misses := e.values.Lookups()
	counter := func(name, help string, v float64) metrics.Metric {
		return metrics.Metric{Name: name, Help: help, Type: metrics.Counter, Samples: metrics.Value(v)}
	}
	gauge := func(name, help string, v float64) metrics.Metric {
		return metrics.Metric{Name: name, Help: help, Type: metrics.Gauge, Samples: metrics.Value(v)}
	}
	return []metrics.Metric{
		{Name: "stator_wal_sync_seconds", Help: "Time that syncs of the write-ahead log took.", Type: metrics.Histogram, Samples: e.walSyncs.Value().Samples()},
		counter("stator_wal_bytes_total", "Bytes that were written to the write-ahead log.", float64(m.WAL.BytesWritten)),
		gauge("stator_wal_size_bytes", "Size of the write-ahead log.", float64(m.WAL.Size)),
		gauge("stator_memtable_size_bytes", "Size of the memtables.", float64(m.MemTable.Size)),
		counter("stator_flushes_total", "Memtables that were flushed.", float64(m.Flush.Count)),
		counter("stator_compactions_total", "Compactions that have ended.", float64(m.Compact.Count)),
		counter("stator_failed_compactions_total", "Compactions that have failed.", float64(m.Compact.FailedCount)),
		gauge("stator_compactions_in_progress", "Compactions that are running.", float64(m.Compact.NumInProgress)),
		gauge("stator_compaction_debt_bytes", "Bytes that compactions have to read until the levels are in shape, estimated.", float64(m.Compact.EstimatedDebt)),
		gauge("stator_level_zero_sublevels", "Sublevels of level 0: reads look into each of them.", float64(m.Levels[0].Sublevels)),
		gauge("stator_read_amplification", "Levels and sublevels that a read may look into.", float64(m.ReadAmp())),
		gauge("stator_disk_usage_bytes", "Size of all files of the engine.", float64(m.DiskSpaceUsage())),
		gauge("stator_open_iterators", "Iterators of tables that are open.", float64(m.TableIters)),
		{Name: "stator_cache_hits_total", Help: "Reads that a cache has answered.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.By("cache", "values", float64(hits)), metrics.By("cache", "blocks", float64(m.BlockCache.Hits)), metrics.By("cache", "tables", float64(m.FileCache.Hits))}},
		{Name: "stator_cache_misses_total", Help: "Reads that a cache could not answer.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.By("cache", "values", float64(misses)), metrics.By("cache", "blocks", float64(m.BlockCache.Misses)), metrics.By("cache", "tables", float64(m.FileCache.Misses))}},
		gauge("stator_block_cache_size_bytes", "Size of the block cache.", float64(m.BlockCache.Size)),
	}
}
