package rightsize

import (
	"sort"
	"time"

	"github.com/stator-db/stator/internal/data/scaling"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
)

// scaledRun is what auto scaling would have done.
type scaledRun struct {
	units     [2][]int64 // provisioned in each minute, by throttle.Kind
	exceeding [2]float64 // units
	changes   [2]int
	refused   [2]int // decreases that had to wait, because there were too many on a day
}

// unitMinutes returns the sum of the provisioned units of all minutes.
func (r *scaledRun) unitMinutes(kind throttle.Kind) (sum float64) {
	for _, n := range r.units[kind] {
		sum += float64(n)
	}
	return sum
}

// unitsOf returns the units of a kind.
func unitsOf(t schema.Throughput, kind int) int64 {
	if kind == int(throttle.Write) {
		return t.Write
	}
	return t.Read
}

// withUnits returns the throughput with other units of a kind.
func withUnits(t schema.Throughput, kind int, units int64) schema.Throughput {
	if kind == int(throttle.Write) {
		t.Write = units
	} else {
		t.Read = units
	}
	return t
}

// scale runs auto scaling minute by minute over the load of a table or an index. Units of a
// kind without bounds are not scaled. It begins with the units for the first minute.
//
// Requests that are throttled are not consumption, and are not repeated. A table that is
// being changed is not changed again before that has ended.
func (r *Resource) scale(bounds [2]*scaling.Bounds, set *Settings, from time.Time) *scaledRun {
	run := new(scaledRun)
	var current, next schema.Throughput
	var reserves [2]throttle.Reserve
	var recent [2][]float64 // rates of the last minutes, the latest first
	var waits [2]bool       // a decrease waits
	minutes := len(r.Consumed[0])
	for kind, b := range bounds {
		current = withUnits(current, kind, 1)
		if b != nil {
			current = withUnits(current, kind, b.Want(set.Target, r.Consumed[kind][0]/60))
			run.units[kind] = make([]int64, minutes)
		}
	}
	delay := int((set.Delay + scaling.Period - 1) / scaling.Period)
	ready := -1 // the minute in which next is there
	for minute := range minutes {
		if minute == ready {
			current, ready = next, -1
		}
		for kind, b := range bounds {
			if b == nil {
				continue
			}
			units, consumed := unitsOf(current, kind), r.Consumed[kind][minute]
			exceeding := reserves[kind].Consume(units, consumed, scaling.Period)
			run.exceeding[kind] += exceeding
			run.units[kind][minute] = units
			recent[kind] = latest(recent[kind], (consumed-exceeding)/scaling.Period.Seconds())
		}
		if ready >= 0 {
			continue
		}
		now := from.Add(time.Duration(minute+1) * scaling.Period)
		next = current
		for kind, b := range bounds {
			if b == nil {
				continue
			}
			to, direction := b.Track(set.Target, unitsOf(next, kind), recent[kind])
			if direction == scaling.None {
				waits[kind] = false
				continue
			}
			changed, err := next.Change(withUnits(next, kind, to), now)
			if err != nil {
				if !waits[kind] {
					run.refused[kind]++
				}
				waits[kind] = true
				continue
			}
			next, waits[kind] = changed, false
			run.changes[kind]++
		}
		if !next.SameUnits(current) {
			ready = minute + 1 + delay
		}
	}
	return run
}

// latest puts a rate before the others, of which it keeps as many as a decision needs.
func latest(rates []float64, rate float64) []float64 {
	if len(rates) < scaling.LowCount {
		rates = append(rates, 0)
	}
	copy(rates[1:], rates)
	rates[0] = rate
	return rates
}

// boundsFor returns the bounds of auto scaling that are asked for. A minimum that is not
// given is the smallest one with which no more than the accepted share of units is
// throttled; constant is a number of units that throttles nothing.
func (r *Resource) boundsFor(kind throttle.Kind, constant int64, set *Settings, from time.Time) *scaling.Bounds {
	highest := set.Max
	if highest == 0 {
		highest = max(schema.MaxTableUnits, 2*constant) // a quota that was raised
	}
	if set.Min > 0 {
		return &scaling.Bounds{Min: min(set.Min, highest), Max: highest}
	}
	total := sum(r.Consumed[kind])
	i := sort.Search(int(min(constant, highest)-1), func(i int) bool {
		var bounds [2]*scaling.Bounds
		bounds[kind] = &scaling.Bounds{Min: int64(i) + 1, Max: highest}
		return r.scale(bounds, set, from).exceeding[kind] <= set.Throttled*total+tolerance
	})
	return &scaling.Bounds{Min: int64(i) + 1, Max: highest}
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
