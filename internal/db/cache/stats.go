package cache

import (
	"slices"
	"time"

	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/metrics"
)

// Stats is what a cache has done since it was made, and what it holds.
type Stats struct {
	ItemHits, ItemMisses   int64
	QueryHits, QueryMisses int64

	Writes       int64 // items that a write through the cache has stored
	Dropped      int64 // entries that a write has removed, of another server or if Coherent
	Expired      int64 // entries that were found too old
	Evicted      int64 // entries that were removed to make room for others
	EvictedBytes int64

	Requests, Errors, Failures int64 // see Count

	Ages Ages // of what was returned

	Entries  int
	Bytes    int64
	Capacity int64 // that Bytes does not exceed
}

// Ages counts durations by AgeBounds; the last count is of those above all.
type Ages struct {
	Counts [len(AgeBounds) + 1]int64
	Sum    time.Duration
	Max    time.Duration
}

// AgeBounds are the upper bounds of the ages that are counted together.
var AgeBounds = [...]time.Duration{
	10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, time.Minute,
	2 * time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

func (a *Ages) add(age time.Duration) {
	i, _ := slices.BinarySearch(AgeBounds[:], age)
	a.Counts[i]++
	a.Sum += age
	a.Max = max(a.Max, age)
}

// Stats returns what the cache has done and what it holds.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Requests, s.Errors, s.Failures = c.requests.Load(), c.errors.Load(), c.failures.Load()
	s.Entries, s.Bytes, s.Capacity = len(c.entries), c.bytes, c.o.Bytes
	return s
}

// measured is the measurements of a cache for CloudWatch; all are nil before MeasureIn.
type measured struct {
	itemHits, itemMisses, queryHits, queryMisses *meter.Series
	evicted, ages, requests, errors, failures    *meter.Series
}

// MeasureIn adds the measurements of the cache to a registry. It is called before the
// cache is used.
func (c *Cache) MeasureIn(r *meter.Registry) {
	of := func(name string) *meter.Series { return r.Series(meter.ID{Name: name}) }
	c.measured = measured{
		itemHits: of(meter.ItemCacheHits), itemMisses: of(meter.ItemCacheMisses),
		queryHits: of(meter.QueryCacheHits), queryMisses: of(meter.QueryCacheMisses),
		evicted: of(meter.EvictedSize), ages: of(meter.ServedAge),
		requests: of(meter.TotalRequests), errors: of(meter.ErrorRequests), failures: of(meter.FaultRequests),
	}
}

func add(s *meter.Series, v float64) {
	if s != nil {
		s.Add(v)
	}
}

// served records a hit and the age of what it returned. The caller holds mu.
func (c *Cache) served(hits *meter.Series, age time.Duration) {
	c.stats.Ages.add(age)
	add(hits, 1)
	add(c.measured.ages, float64(age)/float64(time.Millisecond))
}

// RequestResult is how a request ended.
type RequestResult int

// The results of requests.
const (
	Succeeded RequestResult = iota
	Rejected                // because of a fault of the client
	Failed                  // because of a fault of the server
)

// Count counts a request that went through the cache, whatever it asked for.
func (c *Cache) Count(o RequestResult) {
	add(c.measured.requests, 1)
	c.requests.Add(1)
	switch o {
	case Rejected:
		c.errors.Add(1)
		add(c.measured.errors, 1)
	case Failed:
		c.failures.Add(1)
		add(c.measured.failures, 1)
	}
}

// Metrics returns what the cache holds and how old what it returned was. The counts of hits,
// misses and requests are in the registry of MeasureIn.
func (c *Cache) Metrics() []metrics.Metric {
	s := c.Stats()
	ages := metrics.HistogramValue{Counts: s.Ages.Counts[:], Sum: s.Ages.Sum.Seconds()}
	for _, bound := range AgeBounds {
		ages.Bounds = append(ages.Bounds, bound.Seconds())
	}
	gauge := func(name, help string, v float64) metrics.Metric {
		return metrics.Metric{Name: name, Help: help, Type: metrics.Gauge, Samples: metrics.Value(v)}
	}
	counter := func(name, help string, v int64) metrics.Metric {
		return metrics.Metric{Name: name, Help: help, Type: metrics.Counter, Samples: metrics.Value(float64(v))}
	}
	return []metrics.Metric{
		gauge("stator_dax_cache_bytes", "Memory of the items and results of queries in the cache of DAX.", float64(s.Bytes)),
		gauge("stator_dax_cache_capacity_bytes", "Bound of that memory.", float64(s.Capacity)),
		gauge("stator_dax_cache_entries", "Items and results of queries in the cache of DAX.", float64(s.Entries)),
		counter("stator_dax_cache_evicted_entries_total", "Entries that were removed to make room for others.", s.Evicted),
		counter("stator_dax_cache_expired_entries_total", "Entries that were older than their time to live when they were asked for.", s.Expired),
		counter("stator_dax_cache_dropped_entries_total", "Entries that writes have removed: in mode coherent, or of other servers.", s.Dropped),
		counter("stator_dax_cache_stored_writes_total", "Items that writes through the cache have stored in it.", s.Writes),
		{Name: "stator_dax_cache_served_age_seconds", Help: "Age of what was answered from the cache.", Type: metrics.Histogram, Samples: ages.Samples()},
	}
}
