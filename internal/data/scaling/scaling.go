// Package scaling decides when target tracking changes provisioned units, and to how
// many.
//
// Package autoscaling acts on it, and package rightsize predicts it.
package scaling

import (
	"math"
	"time"
)

const (
	// Period is what consumption is measured by.
	Period = time.Minute

	// LowCount is how many periods below the target decrease units. No decision looks at
	// more than that many.
	LowCount = 15

	highCount = 2  // periods above the target that increase units
	lowPoints = 20 // how many points below the target are below it
	lowestLow = 10 // percent; so that a target of 20 can be fallen short of

	// rounding is what a quotient is too large by at most, as 2.1 / 0.7 is.
	rounding = 1e-6
)

// Direction is that of a change.
type Direction int

// The directions.
const (
	None Direction = iota
	Out            // units are increased
	In             // units are decreased
)

// Bounds limit the units that target tracking sets.
type Bounds struct{ Min, Max int64 }

// Want returns the units of which a target, a utilization in percent, is the highest of
// some rates, in units per second.
func (b Bounds) Want(target float64, rates ...float64) int64 {
	most := 0.0
	for _, rate := range rates {
		most = max(most, rate)
	}
	return min(max(int64(math.Ceil(min(most/(target/100), math.MaxInt32)-rounding)), b.Min), b.Max)
}

// Track returns the units that a target wants, and the direction in which they change.
// rates are those that the last periods consumed, the latest first.
func (b Bounds) Track(target float64, units int64, rates []float64) (to int64, d Direction) {
	high := target / 100 * float64(units)
	low := max(target-lowPoints, lowestLow) / 100 * float64(units)
	if all(rates, highCount, func(rate float64) bool { return rate > high }) {
		if to = b.Want(target, rates[:highCount]...); to > units {
			return to, Out
		}
	} else if all(rates, LowCount, func(rate float64) bool { return rate < low }) {
		if to = b.Want(target, rates[:LowCount]...); to < units {
			return to, In
		}
	}
	return units, None
}

// all reports whether the first n rates exist and each of them is as asked for.
func all(rates []float64, n int, is func(float64) bool) bool {
	if len(rates) < n {
		return false
	}
	for _, rate := range rates[:n] {
		if !is(rate) {
			return false
		}
	}
	return true
}
