package rightsize

import (
	"time"

	"github.com/stator-db/stator/internal/data/scaling"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

// Settings say what is compared.
type Settings struct {
	Prices    *model.Prices
	Target    float64       // of auto scaling, in percent
	Min       int64         // of auto scaling; 0 is the smallest that keeps to Throttled
	Max       int64         // of auto scaling; 0 is the quota of a table
	Delay     time.Duration // until changed units are there
	Throttled float64       // share of units that may be throttled
}

// Report is what each billing mode of a table would have cost, and which one fits.
type Report struct {
	Table      string           `json:"table"`
	From       time.Time        `json:"from"`
	To         time.Time        `json:"to"`
	Days       float64          `json:"days"`
	Gaps       []Gap            `json:"gaps"`
	Coarse     []Coarse         `json:"coarse"`
	Prices     *model.PriceInfo `json:"prices"`
	Target     float64          `json:"target"` // of auto scaling, in percent
	Delay      float64          `json:"delay"`  // of changed units, in seconds
	Accepted   float64          `json:"accepted"`
	Dimensions []*Dimension     `json:"dimensions"`

	Now         *Total `json:"now,omitempty"` // as the table is billed; nil if that is not known
	OnDemand    Total  `json:"onDemand"`
	Constant    Total  `json:"constant"`    // provisioned, without throttling
	Scaled      Total  `json:"scaled"`      // provisioned, auto-scaled
	Provisioned Total  `json:"provisioned"` // with the choice of each dimension

	Recommended string   `json:"recommended"` // on-demand or provisioned
	Reason      string   `json:"reason"`
	Confidence  string   `json:"confidence"` // high, medium or low
	Doubts      []string `json:"doubts"`     // why it is not higher
	Notes       []string `json:"notes"`
}

// The billing modes that can be recommended.
const (
	OnDemand    = "on-demand"
	Provisioned = "provisioned"
)

// Total is the cost of a table with its indexes.
type Total struct {
	Dollars        float64 `json:"dollars"` // of the period
	MonthlyDollars float64 `json:"monthlyDollars"`
	Throttled      float64 `json:"throttled"` // share of all units
}

// Dimension is the reads or the writes of a table or a global index.
type Dimension struct {
	Index    string    `json:"index,omitempty"` // empty for the table itself
	Kind     string    `json:"kind"`            // read or write
	Consumed float64   `json:"consumed"`        // units
	Mean     float64   `json:"mean"`            // units per second
	Peak     float64   `json:"peak"`            // the highest minute, in units per second
	PeakAt   time.Time `json:"peakAt"`
	Throttle float64   `json:"throttleEvents"` // that there were

	OnDemand Option `json:"onDemand"`
	Constant Option `json:"constant"` // without throttling
	Reduced  Option `json:"reduced"`  // fewer units, within the accepted share of throttled units
	Scaled   Option `json:"scaled"`
	Choice   string `json:"choice"` // if the table is provisioned: constant or scaled

	consumed []float64
	units    []int64 // of auto scaling
	kind     throttle.Kind
}

// The ways to provision a dimension.
const (
	choiceConstant = "constant"
	choiceScaled   = "scaled"
)

// worthScaling is the share of the cost of constant units that auto scaling must save.
const worthScaling = 0.05

// Option is the cost of a dimension in one way of billing.
type Option struct {
	Units          int64   `json:"units,omitempty"` // provisioned constantly
	Min            int64   `json:"min,omitempty"`   // of auto scaling
	Max            int64   `json:"max,omitempty"`   // the highest that auto scaling reaches
	Used           float64 `json:"used,omitempty"`  // share of the provisioned units that is consumed
	Throttled      float64 `json:"throttled"`       // share of the consumed units
	Changes        int     `json:"changes,omitempty"`
	Refused        int     `json:"refused,omitempty"` // decreases that had to wait
	Dollars        float64 `json:"dollars"`           // of the period
	MonthlyDollars float64 `json:"monthlyDollars"`
}

// Analyze compares the billing modes of a table. progress is called after each dimension.
func Analyze(l *Load, set *Settings, progress func(done, of int)) *Report {
	r := &Report{
		Table: l.Table, From: l.From, To: l.at(l.Minutes), Days: l.hours() / 24, Gaps: l.Gaps, Coarse: l.Coarse, Prices: set.Prices.Info(),
		Target: set.Target, Delay: set.Delay.Seconds(), Accepted: set.Throttled, Doubts: []string{}, Notes: []string{},
	}
	if r.Gaps == nil {
		r.Gaps = []Gap{}
	}
	if r.Coarse == nil {
		r.Coarse = []Coarse{}
	}
	for _, of := range l.Resources {
		var both [2]*Dimension
		var bounds [2]*scaling.Bounds
		for kind := range both {
			d := of.dimension(l, throttle.Kind(kind), set)
			both[kind], bounds[kind] = d, of.boundsFor(d.kind, d.Constant.Units, set, l.From)
			r.Dimensions = append(r.Dimensions, d)
			progress(len(r.Dimensions), 2*len(l.Resources))
		}
		// Reads and writes of a table share the limit of decreases.
		run := of.scale(bounds, set, l.From)
		for kind, d := range both {
			d.setScaled(l, run, bounds[kind], set)
		}
	}
	r.add(l, set)
	r.recommend(set)
	r.judge(l, set.Prices)
	r.note(l)
	return r
}

// dimension returns a dimension with all options except auto scaling.
func (r *Resource) dimension(l *Load, kind throttle.Kind, set *Settings) *Dimension {
	d := &Dimension{Index: r.Index, Kind: [...]string{"read", "write"}[kind], Throttle: r.Throttles[kind], consumed: r.Consumed[kind], kind: kind}
	for minute, n := range d.consumed {
		d.Consumed += n
		if n/60 > d.Peak {
			d.Peak, d.PeakAt = n/60, l.at(minute)
		}
	}
	d.Mean = d.Consumed / (60 * float64(l.Minutes))
	d.OnDemand = l.option(set.Prices.Requests(byKind(kind, d.Consumed)))
	constant := func(share float64) Option {
		units := smallest(d.consumed, share)
		o := l.option(set.Prices.Hour(byKind(kind, float64(units)*l.hours())))
		o.Units, o.Used, o.Throttled = units, d.Mean/float64(units), d.share(throttledBy(d.consumed, units))
		return o
	}
	d.Constant, d.Reduced = constant(0), constant(set.Throttled)
	d.Constant.Throttled = 0 // not an error of rounding
	return d
}

// share returns the share of units that are throttled.
func (d *Dimension) share(exceeding float64) float64 {
	if exceeding <= tolerance {
		return 0
	}
	return exceeding / d.Consumed
}

// setScaled sets the option of auto scaling, and chooses.
func (d *Dimension) setScaled(l *Load, run *scaledRun, bounds *scaling.Bounds, set *Settings) {
	hours := run.unitMinutes(d.kind) / 60
	o := l.option(set.Prices.Hour(byKind(d.kind, hours)))
	o.Min, o.Throttled, o.Changes, o.Refused = bounds.Min, d.share(run.exceeding[d.kind]), run.changes[d.kind], run.refused[d.kind]
	for _, n := range run.units[d.kind] {
		o.Max = max(o.Max, n)
	}
	o.Used = (d.Consumed - run.exceeding[d.kind]) / (3600 * hours)
	d.Scaled, d.units = o, run.units[d.kind]
	d.Choice = choiceConstant
	if o.Dollars < (1-worthScaling)*d.Constant.Dollars && o.Throttled <= set.Throttled {
		d.Choice = choiceScaled
	}
}

// chosen returns the option if the table is provisioned.
func (d *Dimension) chosen() Option {
	if d.Choice == choiceScaled {
		return d.Scaled
	}
	return d.Constant
}

// byKind returns a number as that of reads or of writes.
func byKind(kind throttle.Kind, n float64) (read, write float64) {
	if kind == throttle.Write {
		return 0, n
	}
	return n, 0
}

// option returns an option that costs so much in the period.
func (l *Load) option(dollars float64) Option {
	return Option{Dollars: dollars, MonthlyDollars: l.monthly(dollars)}
}

// monthly extrapolates a cost to a month.
func (l *Load) monthly(dollars float64) float64 { return dollars * model.MonthHours / l.hours() }

// add sets the totals.
func (r *Report) add(l *Load, set *Settings) {
	all := 0.0
	for _, d := range r.Dimensions {
		all += d.Consumed
	}
	total := func(of func(*Dimension) Option) (t Total) {
		for _, d := range r.Dimensions {
			o := of(d)
			t.Dollars += o.Dollars
			t.Throttled += o.Throttled * d.Consumed / max(all, 1)
		}
		t.MonthlyDollars = l.monthly(t.Dollars)
		return t
	}
	r.OnDemand = total(func(d *Dimension) Option { return d.OnDemand })
	r.Constant = total(func(d *Dimension) Option { return d.Constant })
	r.Scaled = total(func(d *Dimension) Option { return d.Scaled })
	r.Provisioned = total((*Dimension).chosen)

	known, provisioned := true, 0.0
	for _, of := range l.Resources {
		known = known && of.Provisioned[throttle.Read] > 0 && of.Provisioned[throttle.Write] > 0 // or a part of the cost would be missing
		provisioned += set.Prices.Hour(of.Provisioned[throttle.Read], of.Provisioned[throttle.Write])
	}
	switch {
	case l.Now != nil && l.Now.OnDemand:
		now := r.OnDemand
		r.Now = &now
	case known:
		r.Now = &Total{Dollars: provisioned * l.hours(), MonthlyDollars: provisioned * model.MonthHours}
	}
}
