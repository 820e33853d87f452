package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// topCache is what the cache of a server does that has one (see docs/cache.md), per second,
// and what it holds.
type topCache struct {
	Items        topLookups `json:"items"`
	Queries      topLookups `json:"queries"`
	EvictedBytes float64    `json:"evictedBytes"`
	AgeSeconds   float64    `json:"ageSeconds"` // of what was answered from it, on average
	Bytes        float64    `json:"bytes"`
	Capacity     float64    `json:"capacity"`
	Entries      float64    `json:"entries"`
}

// topLookups are lookups in a cache, per second.
type topLookups struct {
	Hits   float64 `json:"hits"`
	Misses float64 `json:"misses"`
}

// cacheOf returns what the cache of a server does; nil if it has none.
func cacheOf(after *scraped, rate func(promSeries) float64) *topCache {
	capacity, ok := after.values[promSeries{name: "stator_dax_cache_capacity_bytes"}]
	if !ok {
		return nil
	}
	of := func(name string) float64 { return rate(promSeries{name: name}) }
	c := &topCache{
		Items:        topLookups{of("dax_item_cache_hits_total"), of("dax_item_cache_misses_total")},
		Queries:      topLookups{of("dax_query_cache_hits_total"), of("dax_query_cache_misses_total")},
		EvictedBytes: of("dax_evicted_size_total"),
		Bytes:        after.values[promSeries{name: "stator_dax_cache_bytes"}],
		Entries:      after.values[promSeries{name: "stator_dax_cache_entries"}],
		Capacity:     capacity,
	}
	if n := of("stator_dax_cache_served_age_seconds_count"); n > 0 {
		c.AgeSeconds = of("stator_dax_cache_served_age_seconds_sum") / n
	}
	return c
}

func (c *topCache) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DAX CACHE\tHITS/S\tMISSES/S\tHIT RATE")
	for _, l := range []struct {
		name string
		topLookups
	}{{"items", c.Items}, {"queries", c.Queries}} {
		share := ""
		if all := l.Hits + l.Misses; all > 0 {
			share = fmt.Sprintf("%.0f %%", 100*l.Hits/all)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\n", l.name, l.Hits, l.Misses, share)
	}
	_ = w.Flush() // of a strings.Builder
	fmt.Fprintf(&b, "%.0f entries, %.1f of %.1f MB, %.1f kB/s evicted, hits are %.1f s old on average\n", c.Entries, c.Bytes/(1<<20), c.Capacity/(1<<20), c.EvictedBytes/1000, c.AgeSeconds)
	return b.String()
}
