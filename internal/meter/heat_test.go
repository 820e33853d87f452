package meter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// sumsOf returns the sums of all cells of a map, by kind: milliunits and throttles.
func sumsOf(m HeatMap) (milli, throttled [2]int64) {
	for _, column := range m.Columns {
		for _, c := range column.Cells {
			for kind := range milli {
				milli[kind] += c.milli[kind]
				throttled[kind] += c.Throttled[kind]
			}
		}
	}
	return milli, throttled
}

// Columns become longer with age, never overlap, and lose nothing until they are five weeks old.
func TestHeatColumns(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	begin := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	r := NewRegistry(begin)
	var l LazyHeat
	of := Resource{Table: "T"}
	l.Of(r, of)
	var want, throttles [2]int64
	now := begin
	for minute := range 9 * 24 * 60 {
		for kind := range want {
			units := float64(random.IntN(20)) / 2
			l.Add(UnitKind(kind), random.Uint64N(4)<<62|random.Uint64N(1<<20), units)
			want[kind] += int64(units * 1000)
		}
		if minute%97 == 0 {
			l.AddThrottled(WriteUnits, 1<<63)
			throttles[WriteUnits]++
		}
		now = now.Add(time.Minute)
		r.Advance(now)
	}
	h := r.heats[of]
	if n := len(h.columns); n > 60+210+160+288+16 {
		t.Errorf("there are %d columns", n)
	}
	for i, c := range h.columns {
		age := r.minute - c.end()
		if i > 0 && h.columns[i-1].end() > c.minute {
			t.Fatalf("seed %d: column %d overlaps the one before", seed, i)
		}
		for _, ring := range heatRings {
			if age < ring.age {
				if c.minutes > ring.minutes {
					t.Fatalf("a column of %d minutes is %d minutes old", c.minutes, age)
				}
				break
			}
		}
		if c.minute%c.minutes != 0 {
			t.Fatalf("a column of %d minutes begins at minute %d", c.minutes, c.minute)
		}
	}
	for _, most := range []int{1, 7, 60, 240, 100_000} {
		all := r.HeatOf(of, begin, now, most)
		if milli, throttled := sumsOf(all); milli != want || throttled != throttles {
			t.Errorf("seed %d: in %d columns there are %v and %v throttles, not %v and %v", seed, most, milli, throttled, want, throttles)
		}
		if n := len(all.Columns); most < 1000 && n > most+1 {
			t.Errorf("%d columns are asked for, and there are %d", most, n)
		}
	}
	if got := r.HeatOf(of, now.Add(-10*time.Minute), now, 240); len(got.Columns) != 10 || got.Step != time.Minute {
		t.Errorf("the last ten minutes have %d columns of %v", len(got.Columns), got.Step)
	}
	r.Advance(now.Add(36 * 24 * time.Hour)) // longer than columns are kept
	if got := r.HeatOf(of, begin, now.Add(37*24*time.Hour), 240); len(got.Columns) != 0 {
		t.Errorf("after five weeks there are %d columns", len(got.Columns))
	}
}

// The present minute is a part of the map before it ends.
func TestHeatOfNow(t *testing.T) {
	r := NewRegistry(start)
	var l LazyHeat
	l.Of(r, Resource{Table: "T"})
	l.Add(ReadUnits, 0xff<<56, 2.5)
	l.AddSpread(ReadUnits, 0, 1<<58, 1) // of ranges 0 to 4
	for range 2 {                       // looking changes nothing
		m := r.HeatOf(Resource{Table: "T"}, start.Add(-time.Hour), start.Add(time.Minute), 60)
		if len(m.Columns) != 1 || len(m.Columns[0].Cells) != 6 || m.Columns[0].Cells[5].Range != 255 || m.Columns[0].Cells[5].Units(ReadUnits) != 2.5 {
			t.Fatalf("the map is %+v", m)
		}
		if milli, _ := sumsOf(m); milli != [2]int64{3500, 0} {
			t.Errorf("the sum is %v", milli)
		}
	}
}

// What is spread adds up exactly, whatever the range.
func TestHeatIsSpreadExactly(t *testing.T) {
	for _, last := range []uint64{0, 1 << 56, 3 << 60, 1<<64 - 1} {
		for _, units := range []float64{0.5, 1, 127.5, 3000} {
			h := new(Heat)
			h.AddSpread(WriteUnits, 0, last, units)
			sum := int64(0)
			for _, c := range h.take(true) {
				sum += c.milli[WriteUnits]
			}
			if sum != int64(units*1000) {
				t.Errorf("%v units to %x are %d milliunits", units, last, sum)
			}
		}
	}
}

// However many tables there are, and however evenly they are used, memory is bounded.
func TestHeatIsBounded(t *testing.T) {
	r := NewRegistry(start)
	now := start
	for minute := range 12 {
		for table := range MaxHeats + 10 {
			if minute > 0 && table > 300 {
				break
			}
			var l LazyHeat
			l.Of(r, Resource{Table: fmt.Sprint("T", table)})
			l.AddSpread(ReadUnits, 0, 1<<64-1, 256)
		}
		now = now.Add(time.Minute)
		r.Advance(now)
		cells := 0
		for _, h := range r.heats {
			cells += h.cells()
		}
		if cells > MaxHeatCells {
			t.Fatalf("after %d minutes there are %d cells", minute, cells)
		}
	}
	if n := len(r.heats); n != MaxHeats {
		t.Errorf("%d tables are counted", n)
	}
	if m := r.HeatOf(Resource{Table: fmt.Sprint("T", MaxHeats+5)}, start, now, 60); m.Counted {
		t.Error("a table beyond the bound is said to be counted")
	}
	last := r.HeatOf(Resource{Table: "T1"}, start, now, 60)
	if len(last.Columns) == 0 || !last.Kept.After(start) || last.Columns[0].Start.Before(last.Kept) {
		t.Errorf("columns are kept from %v, and the first of %d is at %v", last.Kept, len(last.Columns), last.Columns)
	}
	r.Forget("T1")
	if m := r.HeatOf(Resource{Table: "T1"}, start, now, 60); len(m.Columns) != 0 {
		t.Error("a deleted table has heat")
	}
}

// A registry without heat counts none, and makes nothing.
func TestWithoutHeat(t *testing.T) {
	r := NewRegistry(start)
	r.WithoutHeat = true
	var l LazyHeat
	l.Of(r, Resource{Table: "T"})
	if n := testing.AllocsPerRun(100, func() { l.Add(ReadUnits, 1, 1) }); n != 0 || len(r.heats) != 0 {
		t.Errorf("%v allocations, %d heats", n, len(r.heats))
	}
}

// BenchmarkHeat measures what counting by hash range adds to a request.
func BenchmarkHeat(b *testing.B) {
	for _, off := range []bool{false, true} {
		b.Run(map[bool]string{false: "on", true: "off"}[off], func(b *testing.B) {
			r := NewRegistry(start)
			r.WithoutHeat = off
			var l LazyHeat
			l.Of(r, Resource{Table: "T"})
			hash := uint64(0)
			for b.Loop() {
				hash += 0x9e3779b97f4a7c15
				l.Add(ReadUnits, hash, 0.5)
			}
		})
	}
}

// Nothing is lost while minutes end and heat is read.
func TestHeatConcurrently(t *testing.T) {
	r := NewRegistry(start)
	var l LazyHeat
	l.Of(r, Resource{Table: "T"})
	const workers, each = 4, 2000
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			for i := range each {
				l.Add(UnitKind(n%2), uint64(i)<<50, 0.5)
			}
		})
	}
	now := start
	for range 200 {
		now = now.Add(time.Minute)
		r.Advance(now)
		r.HeatOf(Resource{Table: "T"}, start, now, 100)
	}
	wg.Wait()
	if milli, _ := sumsOf(r.HeatOf(Resource{Table: "T"}, start.Add(-time.Hour), now.Add(time.Hour), 100)); milli != [2]int64{workers / 2 * each * 500, workers / 2 * each * 500} {
		t.Errorf("the sums are %v", milli)
	}
}

// The resources of a registry include those that have heat only, so that the heat of deleted tables is removed.
func TestResourcesWithHeat(t *testing.T) {
	r := NewRegistry(time.Unix(0, 0))
	var l LazyHeat
	l.Of(r, Resource{Table: "T", Index: "x"})
	l.Add(ReadUnits, 0, 1)
	if all := r.Resources(); !all[Resource{"T", "x"}] || len(all) != 1 {
		t.Errorf("the resources are %v", all)
	}
	r.Forget("T")
	if all := r.Resources(); len(all) != 0 {
		t.Errorf("after Forget the resources are %v", all)
	}
}
