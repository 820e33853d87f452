package rightsize

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// The size of a plot, in characters. Labels have a column on the left.
const (
	plotColumns = 68
	plotRows    = 8
	plotLabel   = 9
)

// blocks are characters that are filled from below, by eighths.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Plots returns plots of the dimensions that cost most, of those that consume something: the
// highest minutes of consumption, and the units of auto scaling. Lines have no more than
// 80 characters.
func (r *Report) Plots(most int) (lines []string) {
	chosen := slices.DeleteFunc(slices.Clone(r.Dimensions), func(d *Dimension) bool { return d.Consumed == 0 })
	slices.SortStableFunc(chosen, func(a, b *Dimension) int {
		return cmp.Compare(max(b.OnDemand.Dollars, b.Scaled.Dollars), max(a.OnDemand.Dollars, a.Scaled.Dollars))
	})
	for _, d := range chosen[:min(most, len(chosen))] {
		if lines != nil {
			lines = append(lines, "")
		}
		lines = append(lines, r.plot(d)...)
	}
	return lines
}

func (r *Report) plot(d *Dimension) []string {
	columns := min(plotColumns, len(d.consumed))
	consumed, scaled := make([]float64, columns), make([]float64, columns)
	for minute := range d.consumed {
		column := minute * columns / len(d.consumed)
		consumed[column] = max(consumed[column], d.consumed[minute]/60)
		scaled[column] = max(scaled[column], float64(d.units[minute]))
	}
	top := max(slices.Max(consumed), slices.Max(scaled))
	lines := []string{fmt.Sprintf("%.36s: units/s, █ highest minute, ─ auto-scaled", d.title(r.Table))}
	for row := plotRows - 1; row >= 0; row-- {
		label := ""
		switch row {
		case plotRows - 1:
			label = model.Figure(top)
		case 0:
			label = "0"
		}
		line := []rune(fmt.Sprintf("%*s ┤", plotLabel, label))
		for column := range columns {
			line = append(line, cell(consumed[column]/top, scaled[column]/top, row))
		}
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	from, to := r.From.Format(dateAndTime), r.To.Format(dateAndTime)
	return append(lines, fmt.Sprintf("%*s  %s%*s", plotLabel, "", from, max(columns-len(from), len(to)+1), to))
}

// cell returns the character of a row, counted from below, of a column with two heights
// between 0 and 1.
func cell(bar, line float64, row int) rune {
	eighths := int(math.Ceil(bar*plotRows*8)) - 8*row
	at := min(int(line*plotRows), plotRows-1) // the row of the line
	switch {
	case at == row && eighths < 8:
		return '─'
	case at == row:
		return '▒' // the line is within the bar
	}
	return blocks[min(max(eighths, 0), 8)]
}
