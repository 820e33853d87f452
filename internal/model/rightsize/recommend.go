package rightsize

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

// worthwhile is the share of the cost on demand that provisioned units must save: they have
// to be watched, and on demand follows a load that changes.
const worthwhile = 0.1

// recommend chooses a billing mode.
func (r *Report) recommend(set *Settings) {
	consumed := 0.0 // the price of provisioned units that are used completely
	for _, d := range r.Dimensions {
		consumed += set.Prices.Hour(byKind(d.kind, d.Consumed/3600))
	}
	used, needed := consumed/r.Provisioned.Dollars, consumed/r.OnDemand.Dollars
	switch {
	case r.OnDemand.Dollars == 0:
		r.Recommended = OnDemand
		r.Reason = fmt.Sprintf("the table was idle, and costs nothing; the smallest provisioned units cost %s a month", model.Money(r.Provisioned.MonthlyDollars))
	case r.OnDemand.Dollars <= r.Provisioned.Dollars:
		r.Recommended = OnDemand
		r.Reason = fmt.Sprintf("provisioned units would have been used to %s only, and cost less than on demand from %s on", percentage(used), percentage(needed))
	case r.OnDemand.Dollars*(1-worthwhile) < r.Provisioned.Dollars:
		r.Recommended = OnDemand
		r.Reason = fmt.Sprintf("provisioned units would have cost %s less, too little for the risk that a load that changes is throttled", percentage(1-r.Provisioned.Dollars/r.OnDemand.Dollars))
	default:
		r.Recommended = Provisioned
		r.Reason = fmt.Sprintf("provisioned units would have been used to %s, and cost less than on demand from %s on: %s less here", percentage(used), percentage(needed),
			percentage(1-r.Provisioned.Dollars/r.OnDemand.Dollars))
	}
}

// RecommendedTotal returns the cost of what is recommended.
func (r *Report) RecommendedTotal() Total {
	if r.Recommended == Provisioned {
		return r.Provisioned
	}
	return r.OnDemand
}

// percentage formats a share.
func percentage(share float64) string {
	if n := 100 * share; n >= 1 || n == 0 {
		return fmt.Sprintf("%.0f %%", n)
	}
	return fmt.Sprintf("%.2g %%", 100*share)
}

// Days of data that a confidence needs: one week shows a weekly cycle, two show that it
// repeats.
const (
	someDays   = 7
	enoughDays = 14
)

// changedLoad is the factor between two halves of the period that makes an extrapolation
// doubtful.
const changedLoad = 1.5

// judge sets the confidence, and what reduces it.
func (r *Report) judge(l *Load, prices *model.Prices) {
	r.Confidence = "high"
	doubt := func(level, format string, args ...any) {
		if level == "low" || r.Confidence == "high" {
			r.Confidence = level
		}
		r.Doubts = append(r.Doubts, fmt.Sprintf(format, args...))
	}
	// The first and the last hour may be incomplete.
	switch length := r.Days + 2.0/24; {
	case length < someDays:
		doubt("low", "%s of data do not cover a week, so a weekly cycle may be missing", days(r.Days))
	case length < enoughDays:
		doubt("medium", "%s of data cover one week, but do not show whether it repeats", days(r.Days))
	}
	if before := l.From.Sub(l.Asked); !l.Asked.IsZero() && before >= longGap {
		doubt("medium", "there are no data points before %s, %s after the time that was asked for: it is left out", l.From.Format(dateAndTime), hours(before))
	}
	if missing := r.missing(); missing > 0 {
		doubt("medium", "there are no data points for %s, the longest time from %s: they count as idle", hours(missing), r.longest().From.Format(dateAndTime))
	}
	for _, c := range l.Coarse {
		doubt("medium", "%s are known by periods of %s only, which hide shorter peaks", days(float64(c.Minutes)/60/24), hours(time.Duration(c.Seconds)*time.Second))
	}
	events := 0.0
	for _, d := range r.Dimensions {
		events += d.Throttle
	}
	if events > 0 {
		doubt("medium", "%s requests were throttled: the load would have been higher than what was consumed", model.Figure(events))
	}
	if before, after := r.halves(l, prices); after > changedLoad*before || before > changedLoad*after {
		doubt("medium", "the second half of the time costs %s on demand, and the first half %s: a month may differ", model.Money(after), model.Money(before))
	}
}

// missing returns how long there are no data points.
func (r *Report) missing() (sum time.Duration) {
	for _, g := range r.Gaps {
		sum += g.To.Sub(g.From)
	}
	return sum
}

// longest returns the longest gap.
func (r *Report) longest() Gap {
	return slices.MaxFunc(r.Gaps, func(a, b Gap) int { return cmp.Compare(a.To.Sub(a.From), b.To.Sub(b.From)) })
}

// halves returns the cost on demand of both halves of the time, in whole days; in whole
// weeks if there are two.
func (r *Report) halves(l *Load, prices *model.Prices) (before, after float64) {
	unit := 24 * 60 // minutes
	if r.Days >= enoughDays {
		unit *= 7
	}
	half := l.Minutes / 2 / unit * unit
	for _, d := range r.Dimensions {
		before += prices.Requests(byKind(d.kind, sum(d.consumed[:half])))
		after += prices.Requests(byKind(d.kind, sum(d.consumed[l.Minutes-half:])))
	}
	return before, after
}

// note adds what else is worth knowing.
func (r *Report) note(l *Load) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	refused := 0
	for _, d := range r.Dimensions {
		if d.Constant.Units > schema.MaxTableUnits {
			note("%s need %s units, above the quota of %s: it must be raised first", d.title(r.Table), model.Figure(float64(d.Constant.Units)), model.Figure(schema.MaxTableUnits))
		}
		if d.Reduced.Units < d.Constant.Units && r.Recommended == Provisioned && d.Choice == choiceConstant {
			note("%s with %s constant units in place of %s: %s of the units throttled, %s less a month", d.title(r.Table), model.Figure(float64(d.Reduced.Units)),
				model.Figure(float64(d.Constant.Units)), percentage(d.Reduced.Throttled), model.Money(d.Constant.MonthlyDollars-d.Reduced.MonthlyDollars))
		}
		refused += d.Scaled.Refused
	}
	if refused > 0 {
		note("auto scaling had to wait %s to decrease units: it may do so four times a day, and then once an hour", times(refused))
	}
	if r.Recommended == OnDemand {
		r.noteOnDemand(note)
	}
	if l.Now != nil && l.Now.InfrequentAccess {
		note("the table has the class STANDARD_INFREQUENT_ACCESS, and the prices are those of STANDARD: give its own with --prices")
	}
}

// Provisioning returns the units that a provisioned table needs, a line for each dimension.
func (r *Report) Provisioning() (lines []string) {
	for _, d := range r.Dimensions {
		if d.Choice == choiceScaled {
			lines = append(lines, fmt.Sprintf("%s: auto scaling with a target of %s %%, a minimum of %s and a maximum of %s, twice what it reached", d.title(r.Table), model.Figure(r.Target),
				model.Figure(float64(d.Scaled.Min)), model.Figure(float64(min(2*d.Scaled.Max, max(schema.MaxTableUnits, d.Scaled.Max))))))
		} else {
			lines = append(lines, fmt.Sprintf("%s: %s constantly", d.title(r.Table), counted(d.Constant.Units)))
		}
	}
	return lines
}

// counted formats a number of units.
func counted(units int64) string {
	if units == 1 {
		return "1 unit"
	}
	return model.Figure(float64(units)) + " units"
}

// noteOnDemand adds the maximum and the warm throughput that suit an on-demand table.
func (r *Report) noteOnDemand(note func(string, ...any)) {
	initial := [2]int64{throttle.Read: partition.InitialRead, throttle.Write: partition.InitialWrite}
	for i := 0; i < len(r.Dimensions); i += 2 {
		read, write := r.Dimensions[i], r.Dimensions[i+1]
		if read.Consumed+write.Consumed > 0 {
			note("%s: OnDemandThroughput of MaxReadRequestUnits %d and MaxWriteRequestUnits %d, twice the highest minutes, bounds the cost of a faulty client",
				read.resource(r.Table), twice(read.Peak), twice(write.Peak))
		}
		for _, d := range []*Dimension{read, write} {
			if warm := throttle.WarmFor(d.consumed); warm > float64(initial[d.kind]) {
				note("%s need a warm throughput of %s: they rise to more than twice of what they were before, at %s", d.title(r.Table), model.Figure(math.Ceil(warm)), d.PeakAt.Format(dateAndTime))
			}
		}
	}
}

// twice returns twice a rate, rounded up to two digits.
func twice(rate float64) int64 {
	n := max(1, math.Ceil(2*rate))
	digit := math.Pow(10, max(0, math.Floor(math.Log10(n))-1))
	return int64(math.Ceil(n/digit) * digit)
}

// resource returns the name of the table or of the index.
func (d *Dimension) resource(table string) string {
	if d.Index == "" {
		return table
	}
	return "index " + d.Index
}

// title returns the name of the dimension.
func (d *Dimension) title(table string) string { return d.Kind + "s of " + d.resource(table) }

const dateAndTime = "2006-01-02 15:04"

// days formats days.
func days(n float64) string {
	if n < 2 {
		return hours(time.Duration(n * float64(24*time.Hour)))
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " days"
}

// hours formats a duration, to the minute.
func hours(d time.Duration) string {
	text := strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
