package throttle

import "time"

// Reserve is the limit of provisioned units for a consumption that is known by the minute
// and not by the request. Its zero value is the limit of a new table.
type Reserve struct {
	held  float64 // units
	begun bool
}

// Consume consumes units evenly during a time in which rate units per second are
// provisioned. It returns how many of them exceed the limit, and are not consumed.
func (r *Reserve) Consume(rate int64, units float64, during time.Duration) (exceeding float64) {
	provisioned := float64(rate)
	if !r.begun {
		r.held, r.begun = provisioned, true // of one second
	}
	r.held = min(r.held, burst.Seconds()*provisioned) // the rate may have been decreased
	r.held = min(r.held+provisioned*during.Seconds()-units, burst.Seconds()*provisioned)
	if r.held < 0 {
		exceeding, r.held = -r.held, 0
	}
	return exceeding
}

// WarmFor returns the warm throughput that an on-demand table or index needs in order to
// serve a consumption, which is given in units of each minute: the highest rate that is
// more than what the minutes before it have raised its level to.
func WarmFor(minutes []float64) (unitsPerSecond float64) {
	var d demand
	for i, units := range minutes {
		rate := units / time.Minute.Seconds()
		if rate > float64(d.level(0)) {
			unitsPerSecond = max(unitsPerSecond, rate)
		}
		d.add(units)
		d.end(int64(i), int64(i)+1)
	}
	return unitsPerSecond
}
