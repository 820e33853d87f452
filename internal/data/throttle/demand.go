package throttle

import "sync/atomic"

// settleMinutes is how old a peak of an on-demand table must be before twice as
// much can be consumed.
const settleMinutes = 30

// maxOnDemand is the account's quota for each on-demand table or index, in units per second.
const maxOnDemand = 40_000

// demand follows what an on-demand table or index consumes.
type demand struct {
	milliunits atomic.Int64 // of the present minute

	// Guarded by metered.mu.
	recent  [settleMinutes]float64 // units per second of the last minutes, by the minute
	settled float64                // the highest before them
}

func (d *demand) add(units float64) { d.milliunits.Add(milli(units)) }

// end ends the minute before now, of which last was the one that was ended before.
func (d *demand) end(last, now int64) {
	perSecond := float64(d.milliunits.Swap(0)) / 60_000
	for m := last; m < min(now, last+settleMinutes+1); m++ {
		at := &d.recent[m%settleMinutes]
		d.settled = max(d.settled, *at)
		*at = 0
		if m == last { // nothing was consumed in the minutes after it
			*at = perSecond
		}
	}
}

// level returns the units per second that can be consumed: at least those that
// the table is ready for, and twice the highest of the time before settleMinutes.
func (d *demand) level(warm int64) int64 {
	return max(warm, min(int64(2*d.settled), maxOnDemand))
}
