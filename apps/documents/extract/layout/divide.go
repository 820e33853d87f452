package layout

import (
	"slices"

	"github.com/stator-db/stator/apps/documents/extract/pdf"
)

// The signs of a gap between columns that is narrower than one between cells.
const (
	riverGap   = 0.6 // its width, in units of the size
	riverLines = 3   // lines that it divides
	riverReach = 8   // lines above and below that are searched
)

// divide marks the gaps of lines that divide columns: those with a vertical line in
// them, and those that are continued above or below.
func divide(all [][]letter, rules []pdf.Rule) {
	wide := max(riverGap, 1.4*usualGap(all)) // the spaces of typewriters are wide, too
	for n, line := range all {
		for i := 1; i < len(line); i++ {
			l := &line[i]
			if l.gap <= 0.1 {
				continue
			}
			s := span{line[i-1].u1, l.u0}
			l.column = ruled(rules, s, l.v-0.3*l.size) || l.gap >= wide && l.gap <= 3 && river(all, n, s, l.size)
		}
	}
}

// usualGap returns the median of the gaps between words.
func usualGap(all [][]letter) float64 {
	var gaps []float64
	for _, line := range all {
		for _, l := range line[min(1, len(line)):] {
			if l.gap > wordGap && l.gap < cellGap {
				gaps = append(gaps, l.gap)
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// ruled reports whether a vertical line is in a gap. Rules are sorted.
func ruled(rules []pdf.Rule, s span, v float64) bool {
	i, _ := slices.BinarySearchFunc(rules, s.u0-0.5, func(r pdf.Rule, u float64) int {
		if r.X < u {
			return -1
		}
		return 1
	})
	for ; i < len(rules) && rules[i].X <= s.u1+0.5; i++ {
		if rules[i].Top < v && rules[i].Bottom > v {
			return true
		}
	}
	return false
}

// river reports whether a gap of a line is also one of lines above and below it.
func river(all [][]letter, n int, s span, size float64) bool {
	divided := 1
	for _, step := range []int{-1, 1} {
		common, v := s, all[n][0].v
		for i := n + step; i >= 0 && i < len(all) && (i-n)*step <= riverReach; i += step {
			line := all[i]
			if len(line) == 0 {
				continue
			}
			if d := (line[0].v - v) * float64(step); d > 2.2*size {
				break
			}
			v = line[0].v
			gap, inside := free(line, common)
			if gap.u1-gap.u0 < riverGap*size {
				break
			}
			if inside {
				common = gap
				divided++
			}
		}
	}
	return divided >= riverLines
}

// free returns the widest part of a span that a line leaves free, and whether it has
// letters on both sides of it.
func free(line []letter, s span) (span, bool) {
	best, inside := span{}, false
	before := s.u0
	for i, l := range line {
		if l.u1 <= s.u0 {
			continue
		}
		if end := min(l.u0, s.u1); end-before > best.u1-best.u0 {
			best, inside = span{before, end}, i > 0
		}
		if before = max(before, l.u1); before >= s.u1 {
			return best, inside
		}
	}
	if s.u1-before > best.u1-best.u0 {
		best, inside = span{before, s.u1}, false
	}
	return best, inside
}
