package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/heat"
)

// widthFor is the width of what is printed: that of the terminal, or 80.
func widthFor(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n := terminalColumns(f); n >= 40 {
			return min(n, 200)
		}
	}
	return 80
}

// plotResource plots what is asked of the busiest partition of a table or an index, or of
// the whole if its limit was reached.
func plotResource(w io.Writer, x *heat.Resource, width int) {
	b := &x.Busiest
	title, asked, served, limit := fmt.Sprintf("%s, partition %d of %d", resourceName(x), b.Partition, x.Partitions), b.Asked, b.Served, float64(b.Limit)
	if b.OfWhole {
		title, asked, served, limit = resourceName(x), b.WholeAsked, b.WholeServed, float64(x.Rate)
	}
	fmt.Fprintf(w, "%s: %s units/s\n", title, x.Units)
	plot(w, asked, served, limit, b.Seconds*float64(len(asked)), width)
}

// plotRows is the height of a plot.
const plotRows = 10

// plot plots two series over time, of which served is the lower one, and a limit. Each
// cell shows eighths for served; what is asked for and not served is shaded.
func plot(w io.Writer, asked, served []float64, limit, seconds float64, width int) {
	const margin = 9
	columns := max(10, width-margin-1)
	asked, served = resampled(asked, columns), resampled(served, columns)
	top := limit
	for i := range asked {
		top = max(top, asked[i], served[i])
	}
	perRow, begun := niceStep(top/plotRows), false
	for row := plotRows; row >= 0; row-- {
		from := float64(row) * perRow
		isLimit := limit > from-perRow/2 && limit <= from+perRow/2
		if from >= top && !isLimit {
			continue
		}
		line := make([]rune, columns)
		for i := range line {
			line[i] = cell(asked[i], served[i], from, perRow)
			if isLimit && line[i] == ' ' {
				line[i] = '╌'
			}
		}
		text := strings.TrimRight(string(line), " ")
		if begun = begun || text != ""; !begun {
			continue
		}
		label := model.Figure(from)
		if isLimit {
			label = model.Figure(limit)
		}
		axis := "┤"
		if isLimit {
			axis = "┼"
		}
		fmt.Fprintf(w, "%*s %s%s\n", margin-2, label, axis, text)
	}
	fmt.Fprintf(w, "%*s └%s\n", margin-2, "", strings.Repeat("─", columns))
	fmt.Fprintf(w, "%*s %s\n", margin-2, "", timeAxis(seconds, columns))
	fmt.Fprintf(w, "%*s █ served   ░ asked for, not served   ┼ limit\n", margin-2, "")
}

// cell is the rune of a row that begins at from.
func cell(asked, served, from, height float64) rune {
	switch fill := (served - from) / height; {
	case fill >= 1:
		return '█'
	case fill >= 0.5 && asked > served && asked-from >= height:
		return '█'
	case asked > served && asked-from >= height/2:
		return '░'
	case fill > 0:
		return []rune(" ▁▂▃▄▅▆▇")[int(fill*8)]
	}
	return ' '
}

// resampled returns a series with another number of values. Of several values the highest
// remains: peaks are what is looked for.
func resampled(series []float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		first := i * len(series) / n
		all[i] = slices.Max(series[first:max(first+1, (i+1)*len(series)/n)])
	}
	return all
}

// niceStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is not less.
func niceStep(n float64) float64 {
	if n <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(n)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if f*power >= n {
			return f * power
		}
	}
	return 10 * power
}

// timeAxis has the times below a plot.
func timeAxis(seconds float64, columns int) string {
	const labels = 5
	line := []rune(strings.Repeat(" ", columns+len(timeOf(seconds, seconds))))
	for i := range labels + 1 {
		for j, r := range timeOf(seconds*float64(i)/labels, seconds) {
			line[i*columns/labels+j] = r
		}
	}
	return strings.TrimRight(string(line), " ")
}
