package meter

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// HashRanges is how many equal ranges of hashes the counts of a Heat have.
const HashRanges = 256

// Bounds of the memory for heat.
const (
	// MaxHeats is how many tables and indexes are counted by hash range. Further ones are
	// not.
	MaxHeats = 2_000
	// MaxHeatCells is how many counts of ranges are kept. When there are more, the oldest
	// columns are removed.
	MaxHeatCells = 500_000
)

// heatRings are the lengths of columns, in minutes, and until which age columns have them. Each
// length is a multiple of the one before. A table has at most 60 + 210 + 160 + 288 + 168 columns,
// and those of the longest length that is being completed.
var heatRings = [...]struct{ minutes, age int64 }{{1, 60}, {2, 480}, {6, 1440}, {30, 10_080}, {240, 50_400}}

// UnitKind is a kind of units.
type UnitKind int

// The kinds of units.
const (
	ReadUnits UnitKind = iota
	WriteUnits
)

// Heat counts the units of a table or an index by hash range and minute. Its methods take no
// lock.
type Heat struct {
	present [HashRanges]rangeCounts

	// Guarded by Registry.mu.
	columns []heatColumn // ascending; they do not overlap
}

// rangeCounts are the counts of a range in the present minute, by UnitKind.
type rangeCounts struct{ milliunits, throttles [2]atomic.Int64 }

// HeatCell is what was counted of one range.
type HeatCell struct {
	Range     int
	milli     [2]int64
	Throttled [2]int64 // requests, by UnitKind
}

// Units returns the units of a kind.
func (c *HeatCell) Units(kind UnitKind) float64 { return float64(c.milli[kind]) / 1000 }

func (c *HeatCell) add(b HeatCell) {
	for kind := range c.milli {
		c.milli[kind] += b.milli[kind]
		c.Throttled[kind] += b.Throttled[kind]
	}
}

// heatColumn is the counts of some minutes.
type heatColumn struct {
	minute, minutes int64      // the first one, since 1970, and how many
	cells           []HeatCell // ascending by range, only those that are not zero; it is replaced, not changed
}

func (c *heatColumn) end() int64 { return c.minute + c.minutes }

// RangeOf returns the range of a hash.
func RangeOf(hash uint64) int { return int(hash >> (64 - 8)) }

// Add adds the units of requests to a hash.
func (h *Heat) Add(kind UnitKind, hash uint64, units float64) {
	h.present[RangeOf(hash)].milliunits[kind].Add(int64(math.Round(units * 1000)))
}

// AddSpread adds the units of a request to all hashes from first to last, evenly.
func (h *Heat) AddSpread(kind UnitKind, first, last uint64, units float64) {
	from, to := RangeOf(first), max(RangeOf(first), RangeOf(last))
	n := int64(to - from + 1)
	milli := int64(math.Round(units * 1000))
	for i := range n {
		if part := milli*(i+1)/n - milli*i/n; part != 0 {
			h.present[from+int(i)].milliunits[kind].Add(part)
		}
	}
}

// AddThrottled adds a request that was throttled.
func (h *Heat) AddThrottled(kind UnitKind, hash uint64) {
	h.present[RangeOf(hash)].throttles[kind].Add(1)
}

// take returns the counts of the present minute, which it ends if that is set.
func (h *Heat) take(end bool) (cells []HeatCell) {
	for i := range h.present {
		at, c := &h.present[i], HeatCell{Range: i}
		for kind := range c.milli {
			if c.milli[kind] = at.milliunits[kind].Load(); end && c.milli[kind] != 0 {
				c.milli[kind] = at.milliunits[kind].Swap(0)
			}
			if c.Throttled[kind] = at.throttles[kind].Load(); end && c.Throttled[kind] != 0 {
				c.Throttled[kind] = at.throttles[kind].Swap(0)
			}
		}
		if c != (HeatCell{Range: i}) {
			cells = append(cells, c)
		}
	}
	return cells
}

// end ends a minute, and merges the columns that have become too old for their length. The
// caller holds Registry.mu.
func (h *Heat) end(minute int64) {
	if cells := h.take(true); cells != nil {
		h.columns = append(h.columns, heatColumn{minute, 1, slices.Clip(cells)})
	}
	if now := minute + 1; now%heatRings[1].minutes == 0 { // no longer column is complete in between
		h.columns = coarser(h.columns, now)
	}
}

// coarser returns columns with the lengths that they have at a minute.
func coarser(columns []heatColumn, now int64) []heatColumn {
	if len(columns) == 0 {
		return nil
	}
	oldest := now - heatRings[len(heatRings)-1].age
	after := columns[:0]
	for _, c := range columns {
		if c.end() <= oldest {
			continue
		}
		at, length := c.minute, c.minutes
		for i := 1; i < len(heatRings); i++ {
			// The whole of the longer column must be old enough, so that none overlap.
			longer := heatRings[i].minutes
			if begin := c.minute - c.minute%longer; longer > c.minutes && begin+longer <= now-heatRings[i-1].age {
				at, length = begin, longer
			}
		}
		if n := len(after); n > 0 && after[n-1].end() > at {
			before := &after[n-1]
			at, length = min(at, before.minute), max(length, before.minutes)
			*before = heatColumn{at, length, mergeCells(before.cells, c.cells)}
			continue
		}
		after = append(after, heatColumn{at, length, c.cells})
	}
	clear(columns[len(after):]) // frees their cells
	return after
}

// mergeCells returns the sums of the cells of two columns.
func mergeCells(a, b []HeatCell) []HeatCell {
	all := make([]HeatCell, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Range < b[0].Range:
			all, a = append(all, a[0]), a[1:]
		case len(a) == 0 || b[0].Range < a[0].Range:
			all, b = append(all, b[0]), b[1:]
		default:
			both := a[0]
			both.add(b[0])
			all, a, b = append(all, both), a[1:], b[1:]
		}
	}
	return all
}

func (h *Heat) cells() (n int) {
	for i := range h.columns {
		n += len(h.columns[i].cells)
	}
	return n
}

// LazyHeat is a Heat that is made with its first value. Without a Registry that counts heat it
// counts nothing.
type LazyHeat struct {
	from *Registry
	of   Resource
	made atomic.Pointer[Heat]
}

// Of sets the table or index that is counted. It is called before any other method.
func (l *LazyHeat) Of(r *Registry, of Resource) {
	if !r.WithoutHeat {
		l.from, l.of = r, of
	}
}

// get returns the counts; nil if there are none.
func (l *LazyHeat) get() *Heat {
	if h := l.made.Load(); h != nil || l.from == nil {
		return h
	}
	h := l.from.heat(l.of)
	if h != nil {
		l.made.Store(h)
	}
	return h
}

// Add adds the units of a request to a hash.
func (l *LazyHeat) Add(kind UnitKind, hash uint64, units float64) {
	if h := l.get(); h != nil {
		h.Add(kind, hash, units)
	}
}

// AddSpread adds the units of a request to all hashes from first to last, evenly.
func (l *LazyHeat) AddSpread(kind UnitKind, first, last uint64, units float64) {
	if h := l.get(); h != nil {
		h.AddSpread(kind, first, last, units)
	}
}

// AddThrottled adds a request that was throttled.
func (l *LazyHeat) AddThrottled(kind UnitKind, hash uint64) {
	if h := l.get(); h != nil {
		h.AddThrottled(kind, hash)
	}
}

// heat returns the counts of a table or an index; nil if there are too many.
func (r *Registry) heat(of Resource) *Heat {
	r.mu.RLock()
	h, full := r.heats[of], len(r.heats) >= MaxHeats
	r.mu.RUnlock()
	if h != nil || full {
		return h
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h = r.heats[of]; h == nil && len(r.heats) < MaxHeats {
		h = new(Heat)
		r.heats[of] = h
	}
	return h
}

// endHeat ends the present minute of all heat. The caller holds mu.
func (r *Registry) endHeat() {
	cells := 0
	for _, h := range r.heats {
		h.end(r.minute)
		cells += h.cells()
	}
	for cells > MaxHeatCells {
		cells = r.cutHeat()
	}
}

// cutHeat removes the oldest quarter of the time that there is heat of, and returns how many
// cells are left. The caller holds mu.
func (r *Registry) cutHeat() (cells int) {
	oldest := r.minute
	for _, h := range r.heats {
		if len(h.columns) > 0 {
			oldest = min(oldest, h.columns[0].minute)
		}
	}
	before := oldest + max(1, (r.minute-oldest)/4)
	for _, h := range r.heats {
		n := slices.IndexFunc(h.columns, func(c heatColumn) bool { return c.minute >= before })
		if n < 0 {
			n = len(h.columns)
		}
		h.columns = slices.Clone(h.columns[n:]) // frees the memory
		cells += h.cells()
	}
	r.heatFrom = before
	return cells
}

// forgetHeat removes the heat that is not kept. The caller holds mu.
func (r *Registry) forgetHeat(keep func(ID) bool) {
	for of := range r.heats {
		if !keep(ID{Table: of.Table, Index: of.Index}) {
			delete(r.heats, of)
		}
	}
}

// HeatMap is the heat of a table or an index in some time.
type HeatMap struct {
	Step    time.Duration // the length of columns; older ones may be longer
	Columns []HeatColumn  // that have counts, ascending
	Kept    time.Time     // earlier columns are not kept
	Counted bool          // heat of the table or index is counted
}

// HeatColumn is what was counted in some minutes.
type HeatColumn struct {
	Start  time.Time
	Length time.Duration
	Cells  []HeatCell // ascending by range, those that are not zero
}

// HeatOf returns the heat of a table or an index from a time until before another, with the
// present minute. It has about as many columns as most.
func (r *Registry) HeatOf(of Resource, from, to time.Time, most int) HeatMap {
	r.mu.RLock()
	defer r.mu.RUnlock()
	kept := max(r.heatFrom, r.minute-heatRings[len(heatRings)-1].age)
	first, end := max(minuteOf(from), kept), min((to.Unix()+59)/60, r.minute+1)
	step := heatStep(end-first, int64(max(1, most)))
	found := HeatMap{Step: time.Duration(step) * time.Minute, Kept: time.Unix(kept*60, 0).UTC(), Counted: !r.WithoutHeat}
	h := r.heats[of]
	if h == nil {
		found.Counted = found.Counted && len(r.heats) < MaxHeats
		return found
	}
	columns := h.columns
	if present := h.take(false); present != nil {
		columns = append(slices.Clip(columns), heatColumn{r.minute, 1, present})
	}
	var merged []heatColumn
	for _, c := range columns {
		if c.end() <= first || c.minute >= end {
			continue
		}
		if c.minutes < step {
			c.minute, c.minutes = c.minute-c.minute%step, step
		}
		if n := len(merged); n > 0 && merged[n-1].end() > c.minute {
			merged[n-1].cells = mergeCells(merged[n-1].cells, c.cells)
			continue
		}
		merged = append(merged, c)
	}
	for _, c := range merged {
		found.Columns = append(found.Columns, HeatColumn{time.Unix(c.minute*60, 0).UTC(), time.Duration(c.minutes) * time.Minute, c.cells})
	}
	return found
}

// heatStep returns the length of columns, in minutes, of which a time has at most about most. It
// is a multiple of the lengths of younger columns.
func heatStep(minutes, most int64) int64 {
	for _, ring := range heatRings {
		if minutes <= ring.minutes*most {
			return ring.minutes
		}
	}
	longest := heatRings[len(heatRings)-1].minutes
	return longest << bits.Len64(uint64((minutes-1)/(longest*most)))
}
