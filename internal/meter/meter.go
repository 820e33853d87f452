// Package meter records what requests do and consume: totals since the start, and the
// statistics of each minute. Its names are those of CloudWatch.
//
// It does not know where the values come from, or how they are shown.
package meter

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ID names a measurement. Members that it does not have are empty.
type ID struct {
	Name      string // of a Definition
	Table     string
	Index     string // a global index
	Operation string
}

func (id ID) compare(b ID) int {
	return cmp.Or(cmp.Compare(id.Name, b.Name), cmp.Compare(id.Table, b.Table), cmp.Compare(id.Index, b.Index), cmp.Compare(id.Operation, b.Operation))
}

// Bounds of the memory of a Registry.
const (
	// MaxSeries is how many measurements there are, without gauges. Further ones are
	// added up by name: see Series.
	MaxSeries = 20_000
	// MaxGauges is how many gauges there are. Further ones have no history.
	MaxGauges = 20_000
	// MaxPoints is how many points are kept. When there are more, the oldest are
	// removed.
	MaxPoints = 400_000
	// Retention is how long points are kept at most.
	Retention = 15 * 24 * time.Hour
)

// Registry holds all measurements of a server.
type Registry struct {
	// Sample, if set, is called before a minute ends, to add the values of things that
	// have one at any time, such as provisioned units. It is set before the first use.
	Sample func(add func(id ID, value float64))

	// WithoutHeat is set if units are not counted by hash range. It is set before the first use.
	WithoutHeat bool

	advancing sync.Mutex // held to end a minute

	mu     sync.RWMutex
	series map[ID]*Series
	gauges int   // of the series
	minute int64 // the present one, since 1970
	first  int64 // the first minute of which all values are known
	room   int64 // the first minute since which there is room for further series
	points int

	heats    map[Resource]*Heat
	heatFrom int64 // the first minute of which heat is kept

	removals atomic.Uint64 // how often series were removed
}

// maxSkipped is how many minutes the clock may advance at once without being set: on a
// busy machine. It is less than what decreases units.
const maxSkipped = 5

// NewRegistry returns a registry without measurements.
func NewRegistry(now time.Time) *Registry {
	return &Registry{series: make(map[ID]*Series), minute: minuteOf(now), first: (now.Unix() + 59) / 60,
		heats: make(map[Resource]*Heat), heatFrom: minuteOf(now)}
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Series returns the series of a measurement. If there are too many, it returns one
// without table, index and operation, to which all further ones of the name belong.
func (r *Registry) Series(id ID) *Series {
	r.mu.RLock()
	s := r.series[id]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(id)
}

func (r *Registry) get(id ID) *Series {
	if s := r.series[id]; s != nil {
		return s
	}
	s := newSeries(id, r.room)
	switch {
	case s.gauge:
		r.gauges++
	case r.full() && !s.byName:
		return r.get(ID{Name: id.Name})
	}
	r.series[id] = s
	return s
}

// full reports whether there is no room for further series. The caller holds mu.
func (r *Registry) full() bool { return len(r.series)-r.gauges >= MaxSeries }

// Set records a value of a gauge in the present minute.
func (r *Registry) Set(id ID, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.series[id] != nil || r.gauges < MaxGauges {
		r.get(id).Add(value)
	}
}

// Forget removes the measurements of a table that was deleted.
func (r *Registry) Forget(table string) {
	r.remaining(func(id ID) bool { return id.Table != table })
}

// ForgetIndexes removes the measurements of the indexes of a table that it does not have
// any more.
func (r *Registry) ForgetIndexes(table string, has func(index string) bool) {
	r.remaining(func(id ID) bool { return id.Table != table || id.Index == "" || has(id.Index) })
}

// Resources returns the tables and the indexes that have measurements or heat.
func (r *Registry) Resources() map[Resource]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make(map[Resource]bool)
	for id := range r.series {
		if id.Table != "" {
			all[Resource{id.Table, id.Index}] = true
		}
	}
	for of := range r.heats {
		all[of] = true
	}
	return all
}

// Resource is a table, or one of its indexes.
type Resource struct{ Table, Index string }

// remaining removes the measurements that are not kept.
func (r *Registry) remaining(keep func(ID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() {
		defer func() {
			if !r.full() {
				r.room = r.minute + 1 // some values of this minute were added up by name
			}
		}()
	}
	r.forgetHeat(keep)
	r.removals.Add(1)
	for id, s := range r.series {
		if !keep(id) {
			r.points -= len(s.points)
			if s.gauge {
				r.gauges--
			}
			delete(r.series, id)
		}
	}
}

// Advance ends the present minute if it is over. When the clock has been set, or the machine
// was suspended, Sum does not know the minutes before.
func (r *Registry) Advance(now time.Time) {
	r.mu.RLock()
	over, back := minuteOf(now) > r.minute, minuteOf(now) < r.minute-1 // a caller may be a little late
	r.mu.RUnlock()
	if back {
		r.mu.Lock()
		r.first = max(r.first, r.minute+1) // the present minute lasts until the clock is there again
		r.mu.Unlock()
	}
	if !over {
		return
	}
	r.advancing.Lock()
	defer r.advancing.Unlock()
	r.mu.RLock()
	over = minuteOf(now) > r.minute
	r.mu.RUnlock()
	if !over {
		return // ended meanwhile
	}
	if r.Sample != nil {
		r.Sample(r.Set)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.series {
		before := len(s.points)
		s.end(r.minute)
		r.points += len(s.points) - before
	}
	r.endHeat()
	if minuteOf(now) > r.minute+maxSkipped {
		r.first = minuteOf(now) + 1
	}
	r.minute = minuteOf(now)
	if kept := r.minute - int64(Retention/time.Minute); r.oldest() < kept-60 { // not each minute
		r.remove(kept)
	}
	for r.points > MaxPoints {
		oldest := r.oldest()
		r.remove(oldest + max(1, (r.minute-oldest)/4))
	}
}

// remove removes the points before a minute.
func (r *Registry) remove(before int64) {
	r.first = max(r.first, before)
	for _, s := range r.series {
		n := s.search(before)
		if n > 0 {
			s.points = slices.Clone(s.points[n:]) // frees the memory
			r.points -= n
		}
		if len(s.points) > 0 {
			if p := &s.points[0]; p.Minute < before {
				p.repeats -= before - p.Minute
				p.Minute = before
			}
		}
	}
}

// oldest returns the minute of the oldest point.
func (r *Registry) oldest() int64 {
	oldest := r.minute
	for _, s := range r.series {
		if len(s.points) > 0 {
			oldest = min(oldest, s.points[0].Minute)
		}
	}
	return oldest
}

// Points returns the points of a measurement from a time until before another.
func (r *Registry) Points(id ID, from, to time.Time) []Point {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.series[id]
	if s == nil {
		return nil
	}
	first, end := (from.Unix()+59)/60, (to.Unix()+59)/60
	var points []Point
	for _, p := range s.points[s.search(first):] {
		if p.Minute >= end {
			break
		}
		for minute := max(first, p.Minute); minute <= min(p.last(), end-1); minute++ {
			one := p
			one.Minute, one.repeats = minute, 0
			points = append(points, one)
		}
	}
	return points
}

// Sum returns the sum of the values of a minute. It is not ok if that is not known: the
// minute is not over, its points are not kept, or the series is or was one of those that are
// added up by name.
func (r *Registry) Sum(id ID, minute time.Time) (sum float64, ok bool) {
	r.mu.RLock()
	since := r.room
	if s := r.series[id]; s != nil {
		since = s.known
	} else if r.full() {
		since = r.minute
	}
	known := minuteOf(minute) >= max(since, r.first) && minuteOf(minute) < r.minute
	r.mu.RUnlock()
	if !known {
		return 0, false
	}
	return Summarize(r.Points(id, minute.Truncate(time.Minute), minute.Truncate(time.Minute).Add(time.Minute))).Sum, true
}

// Total returns the sum of all values of a measurement.
func (r *Registry) Total(id ID) float64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.series[id]
	if s == nil {
		return 0
	}
	all, _ := s.sinceStart()
	return all.Sum
}

// IDs returns the names of all measurements that have a value, in order.
func (r *Registry) IDs() []ID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]ID, 0, len(r.series))
	for id, s := range r.series {
		if len(s.points) > 0 || s.count.Load() > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, ID.compare)
	return ids
}
