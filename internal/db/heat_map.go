package db

import (
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/meter"
)

// Heat is what the requests of this server have consumed of a table or a global index, by the
// hashes of the keys.
type Heat struct {
	meter.HeatMap
	Partitions partition.Map

	// Throttled is set if the limits of the partitions apply. Otherwise they are those that
	// the table would have by its throughput and size.
	Throttled bool
}

// Heat returns the heat of a table, or of a global index, from a time until before another, in
// about as many columns as most.
func (d *DB) Heat(table, index string, from, to time.Time, most int) (Heat, error) {
	t, err := d.use(table)
	if err != nil {
		return Heat{}, err
	}
	id := uint16(0)
	if index != "" {
		x, ok := t.Index(index)
		if !ok || !x.Global {
			return Heat{}, apierror.NotFound("Requested resource not found: Index: %s of table %s is no global index: a local one shares the heat of its table", index, table)
		}
		id = x.ID
	}
	found := Heat{HeatMap: d.Meter().HeatOf(meter.Resource{Table: table, Index: index}, from, to, most)}
	if t.limits != nil {
		found.Throttled, found.Partitions = true, t.limits.Map(id)
		return found, nil
	}
	set, units, warm := t.Table, t.Throughput, t.Warm
	if x, ok := t.Index(index); ok {
		units, warm = x.Throughput, x.Warm
	}
	ready := schema.ReadyFor(set.OnDemand, units, warm)
	n := partition.Count(ready.Read, ready.Write, t.counts.current()[id].Bytes)
	found.Partitions = partition.Even(min(n, meter.HashRanges))
	return found, nil
}

// hashPosition is where a hash is, from 0 to 1.
func hashPosition(hash uint64) float64 { return math.Ldexp(float64(hash), -64) }

// Borders returns where the partitions begin, from 0 to 1.
func (h *Heat) Borders() (borders []float64) {
	for i := range h.Partitions.Len() {
		first, _ := h.Partitions.Span(i)
		borders = append(borders, hashPosition(first))
	}
	return borders
}

// EveryMinute calls a function when a minute is over, until the database is closed.
func (d *DB) EveryMinute(f func(now time.Time)) {
	d.minutely.Lock()
	defer d.minutely.Unlock()
	d.everyMinute = append(slices.Clip(d.everyMinute), f)
}

func (d *DB) callEveryMinute(now time.Time) {
	d.minutely.Lock()
	all := d.everyMinute
	d.minutely.Unlock()
	for _, f := range all {
		f(now)
	}
}
