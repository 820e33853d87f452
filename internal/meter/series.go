package meter

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Series accumulates the values of one measurement. Add takes no lock.
type Series struct {
	id    ID
	gauge bool

	known  int64 // the first minute of which all values are added here, since 1970
	byName bool  // measurements that have no series of their own are added up here

	// Of the present minute. Values are in thousandths.
	sum, count atomic.Int64
	low, high  atomic.Int64
	within     *histogram // nil unless Definition.Histogram

	// Guarded by Registry.mu.
	total      Statistics
	everWithin [len(Bounds) + 1]int64 // of the minutes before
	points     []Point                // of the minutes before, ascending
}

// LazySeries is a Series that is made with its first value, so that tables that are not
// used have none. Add takes no lock once it is made.
type LazySeries struct {
	from *Registry
	id   ID
	made atomic.Pointer[madeSeries]
}

// madeSeries is the series that values are added to. If it is one by name, another is made
// when series have been removed.
type madeSeries struct {
	*Series
	removals uint64 // of the registry, before the series was made
}

// Of sets the measurement that values are added to. It is called before Add.
func (l *LazySeries) Of(r *Registry, id ID) { l.from, l.id = r, id }

// Add records a value.
func (l *LazySeries) Add(v float64) {
	m := l.made.Load()
	if m == nil || m.byName && m.removals != l.from.removals.Load() {
		m = &madeSeries{removals: l.from.removals.Load()}
		m.Series = l.from.Series(l.id)
		l.made.Store(m)
	}
	m.Add(v)
}

// Bounds are the upper bounds of the first counts of a histogram, in milliseconds.
// There is one count more, of the values above them.
var Bounds = [...]float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000}

// histogram counts values by Bounds.
type histogram [len(Bounds) + 1]atomic.Int64

// Statistics describes some values.
type Statistics struct {
	Sum      float64
	Count    int64
	Min, Max float64
}

// Point is the statistics of one minute that has values.
type Point struct {
	Minute int64 // since 1970
	Statistics
	within *[len(Bounds) + 1]uint32 // nil without a histogram

	repeats int64 // further minutes with the same statistics, of a gauge; 0 outside this package
}

// last returns the last minute that the point is of.
func (p *Point) last() int64 { return p.Minute + p.repeats }

// Time returns the beginning of the minute.
func (p *Point) Time() time.Time { return time.Unix(p.Minute*60, 0).UTC() }

// newSeries returns a series of the values of a minute and later ones.
func newSeries(id ID, known int64) *Series {
	s := &Series{id: id, gauge: definitions[id.Name].Gauge, known: known, byName: id == ID{Name: id.Name}}
	s.low.Store(math.MaxInt64)
	s.high.Store(math.MinInt64)
	if definitions[id.Name].Histogram {
		s.within = new(histogram)
	}
	return s
}

// Add records a value.
func (s *Series) Add(v float64) {
	milli := int64(math.Round(v * 1000))
	s.sum.Add(milli)
	s.count.Add(1)
	for low := s.low.Load(); milli < low && !s.low.CompareAndSwap(low, milli); {
		low = s.low.Load()
	}
	for high := s.high.Load(); milli > high && !s.high.CompareAndSwap(high, milli); {
		high = s.high.Load()
	}
	if s.within != nil {
		s.within[bucketOf(v)].Add(1)
	}
}

func bucketOf(v float64) int {
	for i, bound := range Bounds {
		if v <= bound {
			return i
		}
	}
	return len(Bounds)
}

// end returns the statistics of the minute, which it ends. A value that is added at the
// same time belongs to this minute or to the next one. The caller holds Registry.mu.
func (s *Series) end(minute int64) {
	sum := float64(s.sum.Swap(0)) / 1000
	count := s.count.Swap(0)
	low, high := s.low.Swap(math.MaxInt64), s.high.Swap(math.MinInt64)
	if count == 0 && sum == 0 {
		return
	}
	p := Point{Minute: minute, Statistics: Statistics{Sum: sum, Count: count}}
	if low <= high {
		p.Min, p.Max = float64(low)/1000, float64(high)/1000
	}
	if s.within != nil {
		p.within = new([len(Bounds) + 1]uint32)
		for i := range s.within {
			n := s.within[i].Swap(0)
			p.within[i] = uint32(n)
			s.everWithin[i] += n
		}
	}
	s.total = s.total.merge(p.Statistics)
	if n := len(s.points); s.gauge && n > 0 {
		// Gauges rarely change, and have a value in each minute.
		if before := &s.points[n-1]; before.last()+1 == minute && before.Statistics == p.Statistics {
			before.repeats++
			return
		}
	}
	s.points = append(s.points, p)
}

// search returns the first of the points that ends in a minute or after it.
func (s *Series) search(minute int64) int {
	n, _ := slices.BinarySearchFunc(s.points, minute, func(p Point, minute int64) int { return cmp.Compare(p.last(), minute) })
	return n
}

// sinceStart returns the statistics of all minutes, with the present one. The caller
// holds Registry.mu.
func (s *Series) sinceStart() (all Statistics, within [len(Bounds) + 1]int64) {
	all = s.total
	all.Sum += float64(s.sum.Load()) / 1000
	all.Count += s.count.Load()
	within = s.everWithin
	if s.within != nil {
		for i := range s.within {
			within[i] += s.within[i].Load()
		}
	}
	return all, within
}

// merge returns the statistics of the values of both.
func (a Statistics) merge(b Statistics) Statistics {
	all := Statistics{a.Sum + b.Sum, a.Count + b.Count, min(a.Min, b.Min), max(a.Max, b.Max)}
	if a.Count == 0 {
		all.Min, all.Max = b.Min, b.Max
	}
	if b.Count == 0 {
		all.Min, all.Max = a.Min, a.Max
	}
	return all
}

// Summary is the statistics of several minutes.
type Summary struct {
	Statistics
	within [len(Bounds) + 1]int64
	known  bool // within is of all values
}

// Summarize returns the statistics of all values of the points.
func Summarize(points []Point) Summary {
	s := Summary{known: true}
	for i := range points {
		s.Statistics = s.merge(points[i].Statistics)
		if points[i].within == nil {
			s.known = false
			continue
		}
		for j, n := range points[i].within {
			s.within[j] += int64(n)
		}
	}
	return s
}

// Quantile returns the value below which a share of the values are, approximately. It
// is known for measurements with a histogram only.
func (s *Summary) Quantile(share float64) (value float64, ok bool) {
	if !s.known || s.Count == 0 {
		return 0, false
	}
	rank := share * float64(s.Count)
	below := 0.0
	for i, n := range s.within {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		from, to := s.Min, s.Max
		if i > 0 {
			from = max(from, Bounds[i-1])
		}
		if i < len(Bounds) {
			to = min(to, Bounds[i])
		}
		return from + (to-from)*(rank-below)/float64(n), true
	}
	return s.Max, true
}
