package doc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// CostBar is the cost of one pattern.
type CostBar struct {
	ID      string // "" for all patterns that are not shown
	Name    string
	Dollars string
	Share   float64 // of the cost of all patterns
	Width   float64 // of the largest
}

// mostCostBars is how many patterns have a bar of their own.
const mostCostBars = 15

// costBars returns the patterns by cost, the most expensive first.
func costBars(r *model.Report) (bars []CostBar) {
	total, rest, hidden := 0.0, 0.0, 0
	type pattern struct {
		at      int
		dollars float64
	}
	var all []pattern
	for i, c := range r.Cost.Patterns {
		if c.Served && c.Dollars > 0 {
			all = append(all, pattern{i, c.Dollars})
			total += c.Dollars
		}
	}
	slices.SortStableFunc(all, func(a, b pattern) int { return cmp.Compare(b.dollars, a.dollars) })
	for i, p := range all {
		if i >= mostCostBars {
			rest += p.dollars
			hidden++
			continue
		}
		bars = append(bars, CostBar{patternID(p.at), r.Cost.Patterns[p.at].Name, model.Money(p.dollars), p.dollars / total, p.dollars / all[0].dollars})
	}
	if hidden > 0 {
		bars = append(bars, CostBar{"", fmt.Sprintf("%d others", hidden), model.Money(rest), rest / total, min(1, rest/all[0].dollars)})
	}
	return bars
}

// Day is the load of the busiest partitions over a day, as curves. Without
// curves, Note says why.
type Day struct {
	Note          string
	Width, Height int
	Top           float64 // the share at the upper edge
	LimitY        float64 // of the limit of a partition; negative if it is above the upper edge
	Hours         []DayMark
	Shares        []DayMark
	Curves        []Curve
}

// DayMark is a line of the scale with its text.
type DayMark struct {
	At   float64
	Text string
}

// Curve is one partition.
type Curve struct {
	Number     int
	Key, Place string
	Points     string
	Mean, Peak string
}

const (
	dayWidth, dayHeight = 960, 260
	mostCurves          = 5
	minCurve            = 0.02  // of the hottest partition
	minShare            = 0.001 // of the limit
	peakHour            = 15
	dayHours            = 24
	stepsPerHour        = 4
)

// dayOf returns the curves of the busiest partitions, nil if there is no load.
func dayOf(m *model.Model, r *model.Report) *Day {
	if len(r.Heat) == 0 || r.Heat[0].Share <= 0 {
		return nil
	}
	d := &Day{Width: dayWidth, Height: dayHeight, Top: scaleFor(r.Heat[0].Share)}
	d.LimitY = d.y(1)
	for h := 0; h <= dayHours; h += 3 {
		d.Hours = append(d.Hours, DayMark{d.x(float64(h)), fmt.Sprintf("%d:00", h)})
	}
	for i := 1; i <= 4; i++ {
		share := d.Top * float64(i) / 4
		d.Shares = append(d.Shares, DayMark{d.y(share), percentOfScale(share)})
	}
	varies := false
	for i, x := range r.Heat[:min(mostCurves, len(r.Heat))] {
		mean := x.MeanShare(m)
		if x.Share < minCurve*r.Heat[0].Share {
			break // it would lie on the axis
		}
		varies = varies || mean < 0.99*x.Share
		var points []string
		for step := range dayHours*stepsPerHour + 1 {
			hour := float64(step) / stepsPerHour
			points = append(points, fmt.Sprintf("%.1f,%.1f", d.x(hour), d.y(x.Share*dayShape(mean/x.Share, hour))))
		}
		d.Curves = append(d.Curves, Curve{i + 1, x.Key, tableOrIndexName(x.Table, x.Index), strings.Join(points, " "), percentOfScale(mean), percentOfScale(x.Share)})
	}
	switch {
	case r.Heat[0].Share < minShare:
		d.Curves, d.Note = nil, "No partition takes a thousandth of its limit at any time."
	case !varies:
		d.Curves, d.Note = nil, "The load of these partitions is the same all day: none of their patterns has a peak above its rate."
	}
	return d
}

func (d *Day) x(hour float64) float64 { return hour / dayHours * dayWidth }

func (d *Day) y(share float64) float64 { return dayHeight * (1 - share/d.Top) }

// scaleFor is the upper edge of a scale that contains a share.
func scaleFor(share float64) float64 {
	for scale := 0.001; ; scale *= 10 {
		for _, step := range []float64{1, 2, 4, 6, 8} {
			if share*1.05 <= scale*step {
				return scale * step
			}
		}
	}
}

// percentOfScale formats a share with two significant digits or more.
func percentOfScale(share float64) string {
	if share <= 0 {
		return "0 %"
	}
	unit := math.Pow(10, math.Floor(math.Log10(100*share))-1)
	return model.Figure(math.Round(100*share/min(1, unit))*min(1, unit)) + " %"
}

// dayShape is the load at an hour as a share of the peak: a curve with one
// maximum whose mean over the day is the given one.
func dayShape(mean, hour float64) float64 {
	if mean >= 1 {
		return 1
	}
	c := (1 + math.Cos(2*math.Pi*(hour-peakHour)/dayHours)) / 2
	return math.Pow(c, exponentFor(mean))
}

// exponentFor returns the power of a cosine between 0 and 1 that has a mean over
// a day. The mean falls as the exponent rises.
func exponentFor(mean float64) float64 {
	low, high := 0.0, 1e6
	for range 100 {
		middle := (low + high) / 2
		if powerMean(middle) > mean {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// powerMean is the mean of ((1+cos)/2)^k over a period.
func powerMean(k float64) float64 {
	a, _ := math.Lgamma(k + 0.5)
	b, _ := math.Lgamma(k + 1)
	return math.Exp(a-b) / math.Sqrt(math.Pi)
}
