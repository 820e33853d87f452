package workload

import (
	"slices"
	"sync"
	"time"
)

// The counts of the last hour are those of now without those of a mark, which is made every
// markEvery.
const (
	markEvery = 5 * time.Minute
	hour      = time.Hour
)

// marks are the counts at some earlier times, ascending.
type marks struct {
	mu  sync.Mutex
	all []mark
}

// mark is the counts at a time, of the shapes that had any.
type mark struct {
	at     time.Time
	counts map[*Counter]markedCounts
	other  markedCounts
}

// markedCounts are the counts of one shape.
type markedCounts struct {
	requests, returned, discarded, measured, halfUnits int64
}

func (c *Counter) marked() markedCounts {
	return markedCounts{c.requests.Load(), c.returned.Load(), c.discarded.Load(), c.measured.Load(), c.halfUnits.Load()}
}

// Mark keeps the present counts for LastHour, if the last ones that were kept are old enough. It
// is called every minute.
func (r *Recorder) Mark(now time.Time) {
	p := r.current.Load()
	p.marks.mu.Lock()
	defer p.marks.mu.Unlock()
	all := p.marks.all
	if n := len(all); n > 0 && all[n-1].at.After(now) { // the clock was set
		all = nil
	}
	if n := len(all); n > 0 && now.Sub(all[n-1].at) < markEvery-30*time.Second {
		p.marks.all = all
		return
	}
	for len(all) > 1 && now.Sub(all[1].at) >= hour {
		all = all[1:]
	}
	m := mark{at: now, counts: make(map[*Counter]markedCounts), other: p.other.marked()}
	p.mu.RLock()
	for _, c := range p.known {
		if marked := c.marked(); marked.requests > 0 {
			m.counts[c] = marked
		}
	}
	p.mu.RUnlock()
	p.marks.all = append(slices.Clone(all), m)
}

// LastHour returns the counts since a mark that is about an hour old, or since the start or the
// last reset.
func (r *Recorder) LastHour(now time.Time) Report {
	p := r.current.Load()
	p.marks.mu.Lock()
	all := p.marks.all
	p.marks.mu.Unlock()
	var from *mark
	for i := range all {
		if now.Sub(all[i].at) >= hour-markEvery {
			from = &all[i]
		}
	}
	if from == nil {
		return p.report()
	}
	report := Report{Since: from.at, Shapes: []ShapeCount{}, Other: p.other.since(from.other, Shape{Operation: "other"})}
	p.mu.RLock()
	for shape, c := range p.known {
		if n := c.since(from.counts[c], shape); n.Requests > 0 {
			report.Shapes = append(report.Shapes, n)
		}
	}
	p.mu.RUnlock()
	report.Shapes = p.hideWhole(report.Shapes)
	slices.SortFunc(report.Shapes, mostFrequentFirst)
	return report
}
