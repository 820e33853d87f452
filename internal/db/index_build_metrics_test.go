package db

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store/pebble"
)

// While an index is built, its progress is a gauge. The entries that are added consume
// write units, which are counted, and so are the writes that its limits reject.
func TestIndexBuildIsMetered(t *testing.T) {
	seed := logSeed(t)
	const count = 20 * buildItems
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 1, 0, 0, 30, 0, time.UTC).UnixNano())
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 7)
	d := newDB(t, g, Options{Clock: clock.New(clock.Options{Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }})})
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	provisioned := func(def *schema.Table) error { def.Throughput = schema.Throughput{Read: 1000, Write: 1000}; return nil }
	if _, err := d.UpdateTable(t.Context(), "Parts", provisioned); err != nil {
		t.Fatal(err)
	}
	if err := d.SetThrottling(t.Context(), "Parts", schema.ThrottlingOn); err != nil {
		t.Fatal(err)
	}
	x := lateIndex()
	x.Throughput = schema.Throughput{Read: 1, Write: 1}
	addIndex(t, d, x)
	<-g.reached
	text := string(metrics.Append(nil, d.Meter().Metrics()...))
	_, line, _ := strings.Cut(text, `dynamodb_online_index_percentage_progress{table="Parts",index="late"} `)
	var percent float64
	if _, err := fmt.Sscan(line, &percent); err != nil || percent < 10 || percent > 60 {
		t.Errorf("after 6 batches of about 20 the progress is %v (%v)", percent, err)
	}
	for range 3 { // of which the first takes the unit
		_, _ = d.Write(t.Context(), touchPart())
	}
	now.Add(int64(time.Minute))
	d.Meter()
	g.release()
	waitIndexes(t, d)
	now.Add(int64(time.Minute))
	units := 0.0
	for entry := range scanParts(t, d, "late") {
		units += capacity.Write(entry.Size())
	}
	of := func(name string) meter.Summary {
		at := time.Unix(0, now.Load())
		return meter.Summarize(d.Meter().Points(meter.ID{Name: name, Table: "Parts", Index: "late"}, at.Add(-time.Hour), at))
	}
	if got := of(meter.BuildConsumed).Sum; math.Abs(got-units) > 3 { // the entry of touchPart was written before
		t.Errorf("the build consumed %v units, but the entries cost %v", got, units)
	}
	if got := of(meter.BuildProgress); got.Max != 100 || got.Min >= 100 || got.Count < 2 {
		t.Errorf("the progress was %+v", got)
	}
	if got := of(meter.BuildThrottles).Sum; got != 2 {
		t.Errorf("%v writes were throttled by the index, want 2", got)
	}
	if text := string(metrics.Append(nil, d.Meter().Metrics()...)); strings.Contains(text, "online_index_percentage_progress{") {
		t.Errorf("the progress is shown when no index is built:\n%s", text)
	}
}

// touchPart changes the entry of an item.
func touchPart() Write {
	it := partKey(0).With("a", item.String("a")).With("b", item.String(fmt.Sprint("b", rand.Uint64())))
	return Write{Table: "Parts", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
}
